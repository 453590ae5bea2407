//! Any text is rules for the embedded engine or is refused at a place in it, and any frame and any
//! payload is inspected with what was read: at most fifteen alerts, the same a second time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use niclab_ids::Variables;
use niclab_ids::engine::{ALERTS_MAX, RuleEngine, read};

/// Headers of a datagram of IPv4 behind Ethernet, without lengths.
const HEADERS: [u8; 42] = [
    2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1,
    10, 0, 0, 2, 0, 7, 0, 53, 0, 0, 0, 0,
];

/// A frame with a payload.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let mut frame = [&HEADERS[..], payload].concat();
    let len = |behind: usize| (payload.len() + behind).min(65_535) as u16;
    frame[16..18].copy_from_slice(&len(28).to_be_bytes());
    frame[38..40].copy_from_slice(&len(8).to_be_bytes());
    frame
}

fuzz_target!(|data: &[u8]| {
    // Rules, a byte that is no text, and a payload.
    let (text, payload) = match data.iter().position(|byte| *byte == 0xff) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, data),
    };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let mut variables = Variables::default();
    variables.define_addresses("HOME_NET", "[10.0.0.0/8,!10.1.0.0/16,fc00::/7]");
    let rules = match read(text, &variables) {
        Ok(rules) => rules,
        Err(errors) => {
            for error in errors {
                assert!(error.line() >= 1 && error.column() >= 1 && !error.to_string().is_empty());
            }
            return;
        }
    };
    let engine = RuleEngine::new(rules.into_iter().filter_map(|(_, signature)| signature.ok()));
    let mut scratch = engine.scratch();
    for frame in [payload.to_vec(), datagram(payload)] {
        let mut alerts = [Vec::new(), Vec::new()];
        for alerts in &mut alerts {
            let _ = engine.inspect(&frame, &mut scratch, |alert| alerts.push(alert));
        }
        assert!(alerts[0].len() <= ALERTS_MAX && alerts[0] == alerts[1]);
    }
});
