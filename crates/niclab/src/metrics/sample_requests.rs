//! Requests for counters, from the metrics server to the thread that owns the card.
//!
//! The card is asked at most as often as its thread has time; whoever asks waits a while.

use std::sync::mpsc::{self, Receiver, Sender, SyncSender, sync_channel};
use std::time::Duration;

use crate::nic::sample::CardSample;

/// How long an answer is waited for. The card may be at work on a long request.
const PATIENCE: Duration = Duration::from_secs(3);

/// The end that asks.
pub struct SampleRequester(Sender<SyncSender<CardSample>>);

/// The end that answers.
pub struct SampleRequests(Receiver<SyncSender<CardSample>>);

/// Both ends.
pub fn channel() -> (SampleRequester, SampleRequests) {
    let (requester, requests) = mpsc::channel();
    (SampleRequester(requester), SampleRequests(requests))
}

impl SampleRequester {
    /// The counters of the card; `None` where it gives none in time, or has ended.
    pub fn request(&self) -> Option<CardSample> {
        let (reply, answer) = sync_channel(1);
        self.0.send(reply).ok()?;
        answer.recv_timeout(PATIENCE).ok()
    }
}

impl SampleRequests {
    /// Answers what was asked.
    pub fn answer(&self, mut sample: impl FnMut() -> CardSample) {
        while let Ok(reply) = self.0.try_recv() {
            // Whoever asked may have gone.
            let _ = reply.try_send(sample());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn an_answer_comes_and_the_end_of_a_card_ends_the_wait() {
        let (asker, questions) = channel();
        let asks = thread::spawn(move || (asker.request(), asker));
        let until = Instant::now() + PATIENCE;
        while !asks.is_finished() && Instant::now() < until {
            questions.answer(CardSample::default);
            thread::sleep(Duration::from_millis(1));
        }
        let (answer, asker) = asks.join().unwrap();
        assert_eq!(answer, Some(CardSample::default()));
        let (begun, asks) = (Instant::now(), thread::spawn(move || asker.request()));
        thread::sleep(Duration::from_millis(20));
        drop(questions);
        assert_eq!(asks.join().unwrap(), None);
        assert!(begun.elapsed() < PATIENCE, "it did not wait for a card that has ended");
    }
}
