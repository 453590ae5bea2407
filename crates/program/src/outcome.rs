//! What came of a packet.

/// What came of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Where it went.
    pub fate: Fate,
    /// Its bytes when it went there.
    pub frame: Vec<u8>,
    /// Copies that were made on the way.
    pub copies: Vec<Copied>,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Out by this port; whoever runs the program knows whether it is there.
    Port(u64),
    /// To this queue of the host; whoever runs the program knows whether it is there.
    Queue(u64),
    /// Out by the port that it came by, turned round.
    Back,
    /// Nowhere.
    Dropped(Lost),
}

impl Fate {
    /// The same of a packet of which an entry of a ring was written.
    pub(crate) fn of_handed(self) -> Fate {
        match self {
            Fate::Dropped(Lost::Told | Lost::Empty) => Fate::Dropped(Lost::Handed),
            fate => fate,
        }
    }
}

/// Why a packet goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The program says so.
    Told,
    /// The program says so, or has left no byte of it, and has written an entry of a ring about it:
    /// who reads the ring has it.
    Handed,
    /// It ends before a header that is taken off it.
    Short,
    /// It came round more often than it may.
    Rounds,
    /// No byte is left of it.
    Empty,
    /// Its frame has no room for the headers that were put before it.
    NoRoom,
    /// It was to be written where the application has no memory, or read from there.
    Outside,
    /// The application's ring has no room for an entry.
    RingFull,
    /// Somebody else changed the place that it was to be written to, again and again.
    Hindered,
}

/// A copy of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The port that it leaves by.
    pub port: u32,
    /// Its bytes.
    pub frame: Vec<u8>,
}
