//! Any datagram is one frame or is refused; what is read is written again as the same bytes, and no
//! datagram makes a receiver or a sender panic, or take a tuple twice.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use niclab_analytics::receiver::{Receiver, ReceiverOptions, TupleSink};
use niclab_analytics::source::{NewTuple, Sender, SenderOptions};
use niclab_analytics::tuple::{Frame, Tuple, begin_tuples, push_tuple, write_progress};

/// Takes two of three tuples that it is offered.
#[derive(Default)]
struct Taken {
    tuples: HashSet<(u64, u64, u64)>,
    offered: u64,
    source: u64,
}

impl TupleSink for Taken {
    fn take(&mut self, tuple: &Tuple<'_>) -> bool {
        self.offered += 1;
        let is_taken = self.offered % 3 != 0;
        // A source that was forgotten may come again with other event times.
        let once = (self.source, tuple.sequence, tuple.time_ns);
        assert!(!is_taken || self.tuples.insert(once));
        is_taken
    }
}

fuzz_target!(|data: &[u8]| {
    let mut written = Vec::new();
    match Frame::parse(data) {
        Ok((source, Frame::Tuples(tuples))) => {
            begin_tuples(&mut written, source);
            assert!(tuples.into_iter().all(|tuple| push_tuple(&mut written, &tuple)));
            assert_eq!(written, data);
        }
        Ok((source, Frame::Progress(progress))) => {
            write_progress(&mut written, source, &progress);
            assert_eq!(written, data);
        }
        Ok((_, Frame::Acknowledgement(acknowledgement))) => {
            acknowledgement.selective().for_each(drop);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }

    // Datagrams behind each other, each with its length before it.
    let options = ReceiverOptions { window: 64, sources_max: 3, ..ReceiverOptions::default() };
    let (mut receiver, mut taken) = (Receiver::new(options), Taken::default());
    let mut sender = Sender::new(SenderOptions { window: 64, ..SenderOptions::new(1) });
    let (mut rest, mut now_ns) = (data, 0);
    while let Some((len, behind)) = rest.split_first() {
        let (datagram, behind) = behind.split_at(behind.len().min(usize::from(*len)));
        rest = behind;
        now_ns += 1_000_000;
        if let Ok((source, _)) = Frame::parse(datagram) {
            taken.source = source;
        }
        if let Ok(Some(source)) = receiver.receive(now_ns, datagram, &mut taken) {
            receiver.write_acknowledgement(source, 64, datagram.len(), &mut written);
            assert!(Frame::parse(&written).is_ok() && written.len() <= datagram.len().max(32));
            let _ = sender.acknowledge(now_ns, &written);
        }
        let before_ns = receiver.watermark_ns(now_ns);
        assert!(receiver.watermark_ns(now_ns + 1) >= before_ns);
        let _ = sender.offer(&NewTuple { time_ns: now_ns, ..NewTuple::default() });
        let _ = sender.acknowledge(now_ns, datagram);
        while sender.frame(now_ns, &mut written) {
            assert!(Frame::parse(&written).is_ok());
        }
    }
});
