//! The definition of a meter, token by token.
//!
//! 1. A bucket is full at first. A token is a byte. With a rate of R bytes a second, token k comes
//!    at k/R seconds of the time that is set. A frame needs a token for each of its bytes and 4 for
//!    its FCS.
//! 2. *One rate* (RFC 2697, section 3). A token goes into the committed bucket; if that is full,
//!    into the excess bucket; if that is full too, it is lost. A frame that finds its tokens in the
//!    committed bucket takes them and is green. Otherwise, if it finds them in the excess bucket,
//!    it takes those and is yellow. Otherwise it is red and takes none.
//! 3. *Two rates* (RFC 2698, section 3). Each bucket has a rate. A frame that does not find its
//!    tokens in the peak bucket is red. Otherwise, if it does not find them in the committed
//!    bucket, it is yellow and takes those of the peak bucket. Otherwise it is green and takes
//!    both.
//! 4. *Colour-aware.* A frame that was yellow before cannot be green: it uses the excess or the
//!    peak bucket only. A frame that was red before is red and takes no token. In the colour-blind
//!    mode every frame was green before.
//! 5. A rule drops red frames; green and yellow frames go on.

use crate::meter::{Colour, Meter};

/// A meter, and the tokens it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinedMeter {
    meter: Meter,
    committed: u64,
    /// Tokens of the excess or peak bucket.
    other: u64,
    now_ns: u64,
}

impl DefinedMeter {
    /// A meter whose buckets are full at this time.
    pub fn new(meter: Meter, now_ns: u64) -> DefinedMeter {
        let (committed, other) = match meter {
            Meter::SingleRate { cbs_bytes, ebs_bytes, .. } => (cbs_bytes, ebs_bytes),
            Meter::TwoRate { cbs_bytes, pbs_bytes, .. } => (cbs_bytes, pbs_bytes),
        };
        DefinedMeter { meter, committed, other, now_ns }
    }

    /// The colour of a frame of this length at this time, at best its colour before.
    pub fn colour(&mut self, bytes: u64, before: Colour, now_ns: u64) -> Colour {
        let since_ns = self.now_ns;
        self.now_ns = now_ns.max(since_ns);
        let tokens_until =
            |rate: u64, time_ns: u64| u128::from(rate) * u128::from(time_ns) / 1_000_000_000;
        let came = |rate| tokens_until(rate, now_ns.max(since_ns)) - tokens_until(rate, since_ns);
        match self.meter {
            Meter::SingleRate { cir_bytes_per_s, cbs_bytes, ebs_bytes } => {
                for _ in 0..came(cir_bytes_per_s) {
                    if self.committed < cbs_bytes {
                        self.committed += 1;
                    } else if self.other < ebs_bytes {
                        self.other += 1;
                    } else {
                        break;
                    }
                }
                if before == Colour::Green && self.committed >= bytes {
                    self.committed -= bytes;
                    return Colour::Green;
                }
                if before <= Colour::Yellow && self.other >= bytes {
                    self.other -= bytes;
                    return Colour::Yellow;
                }
                Colour::Red
            }
            Meter::TwoRate { cir_bytes_per_s, pir_bytes_per_s, cbs_bytes, pbs_bytes } => {
                let room = u128::from(cbs_bytes - self.committed);
                self.committed += came(cir_bytes_per_s).min(room) as u64;
                let room = u128::from(pbs_bytes - self.other);
                self.other += came(pir_bytes_per_s).min(room) as u64;
                if before == Colour::Red || self.other < bytes {
                    return Colour::Red;
                }
                self.other -= bytes;
                if before == Colour::Yellow || self.committed < bytes {
                    return Colour::Yellow;
                }
                self.committed -= bytes;
                Colour::Green
            }
        }
    }
}
