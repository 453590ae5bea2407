//! The setting of a card's time stamps, changed for a measurement and set back behind it.
//!
//! As with other settings, what was there is noted in a file before anything is changed.

use niclab_packet::timestamp::TimestampClock;

use super::ethtool::Card;
use super::ethtool::stamps::{RxFilter, StampSetting};
use super::link::Link;
use super::note::{Note, NoteContent, NoteKind};
use super::{End, refused};
use crate::face::{DeviceError, Fact};

/// Notes of it.
const NOTES: NoteKind<StampSetting> = NoteKind::new("time-stamps");

/// The time stamps of the tester's interface, as they were asked for. Dropped, it sets the card
/// back.
#[derive(Debug, Default)]
pub(super) struct Stamping {
    clock: Option<TimestampClock>,
    card: Option<HeldStamps>,
}

/// A card that stamps frames.
#[derive(Debug)]
struct HeldStamps {
    card: Card,
    before: StampSetting,
    frames: RxFilter,
    /// To be removed when the setting is as it was.
    note: Option<Note>,
}

impl Stamping {
    /// Has the interface of the tester stamp frames by this clock, if there is one.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] where card or driver has no such stamps;
    /// [`DeviceError::Rights`]; [`DeviceError::Broken`] where another process has changed the
    /// setting.
    pub(super) fn take(end: &End, clock: Option<TimestampClock>) -> Result<Stamping, DeviceError> {
        let within = |e| refused("entering a namespace", &e);
        let card = match clock {
            None => None,
            Some(TimestampClock::Card) => {
                let held = end.netns.within(|| HeldStamps::take(&end.link));
                Some(held.map_err(within)??)
            }
            Some(TimestampClock::Kernel) => {
                end.netns.within(|| check_kernel(&end.link)).map_err(within)??;
                None
            }
        };
        Ok(Stamping { clock, card })
    }

    /// The clock of the stamps.
    pub(super) fn clock(&self) -> Option<TimestampClock> {
        self.clock
    }

    /// The stamps in words.
    pub(super) fn facts(&self) -> Vec<Fact> {
        let value = match (self.clock, &self.card) {
            (None, _) => return Vec::new(),
            (Some(TimestampClock::Kernel), _) => {
                "by the kernel: in the driver on the way out, behind it on the way in; each frame \
                 that this host receives costs it a reading of the clock"
                    .to_owned()
            }
            (Some(TimestampClock::Card), held) => {
                let is_ptp = held.as_ref().is_some_and(|held| held.frames == RxFilter::Ptp);
                let which = if is_ptp { "PTP frames alone" } else { "all frames" };
                format!("by the card's clock: {which}")
            }
        };
        vec![Fact { name: "time stamps of the tester".into(), value }]
    }
}

impl HeldStamps {
    fn take(link: &Link) -> Result<HeldStamps, DeviceError> {
        let name = &link.name;
        let reading = |e| refused(&format!("reading the time stamps of {name}"), &e);
        let mut card = Card::open(name).map_err(reading)?;
        let driver = driver_of(&mut card);
        let Some(frames) = card.stamp_ability().map_err(reading)?.frames() else {
            return Err(DeviceError::lacks(format!(
                "time stamps of the card for frames both ways (driver {driver}; `ethtool -T \
                 {name}` must list hardware-transmit, and the receive filter all or ptpv2-event); \
                 `stamps=kernel` takes the kernel's"
            )));
        };
        // Before the setting is read: whoever has the note may set it back just now.
        let taken = NOTES.take(name, link.index)?.ok_or_else(|| DeviceError::Broken {
            device: format!("interface {name}"),
            reason: "another process of niclab has changed its time stamps; wait for its end"
                .into(),
        })?;
        let (mut note, left) = taken;
        let now = card.stamp_setting().map_err(reading)?.ok_or_else(|| {
            DeviceError::lacks(format!(
                "time stamps of a card whose setting cannot be read (driver {driver}): niclab \
                 could not set it back; `stamps=kernel` takes the kernel's"
            ))
        })?;
        let before = left.unwrap_or(now);
        note.write(name, &before)?;
        // From here on the note is the guard's, which undoes what was done, if anything.
        let mut held = HeldStamps { card, before, frames, note: Some(note) };
        let wanted = StampSetting::of(frames);
        if wanted.is_part_of(now) {
            return Ok(held);
        }
        let set = held.card.set_stamps(wanted);
        let set = set.map_err(|e| refused(&format!("setting the time stamps of {name}"), &e))?;
        if !wanted.is_part_of(set) {
            return Err(DeviceError::lacks(format!(
                "time stamps of the card that stay off when they are set (driver {driver}); \
                 `stamps=kernel` takes the kernel's"
            )));
        }
        Ok(held)
    }
}

/// The name of a card's driver.
fn driver_of(card: &mut Card) -> String {
    let driver = card.driver().map(|driver| driver.name);
    driver.unwrap_or_else(|_| format!("of {}", card.name()))
}

/// Refuses the kernel's time stamps on an interface whose driver does not take them.
fn check_kernel(link: &Link) -> Result<(), DeviceError> {
    let name = &link.name;
    let reading = |e| refused(&format!("reading the time stamps of {name}"), &e);
    let mut card = Card::open(name).map_err(reading)?;
    match card.stamp_ability().map_err(reading)?.has_kernel_times() {
        true => Ok(()),
        false => Err(DeviceError::lacks(format!(
            "the kernel's time stamps of sent frames (driver {} takes none)",
            driver_of(&mut card)
        ))),
    }
}

impl Drop for HeldStamps {
    fn drop(&mut self) {
        let Some(note) = self.note.take() else { return };
        // Where this fails the note stays, and `clean` tells of it.
        if restore(&mut self.card, self.before).is_ok() {
            let _ = note.remove();
        }
    }
}

/// Sets back what killed processes have left changed in the calling thread's namespace, and says
/// what. Notes of other namespaces are left alone.
///
/// # Errors
/// [`DeviceError::Rights`]; [`DeviceError::Broken`].
pub(super) fn clean() -> Result<Vec<String>, DeviceError> {
    let mut cleaned = Vec::new();
    for (note, NoteContent { interface, process, before }, _) in NOTES.left()? {
        let card = Card::open(&interface);
        let mut card = card.map_err(|e| refused(&format!("opening {interface}"), &e))?;
        restore(&mut card, before)?;
        note.remove()?;
        cleaned.push(format!(
            "interface {interface}: time stamps of the card, turned on by process {process}; they \
             are set back"
        ));
    }
    Ok(cleaned)
}

fn restore(card: &mut Card, before: StampSetting) -> Result<(), DeviceError> {
    let set = match card.stamp_setting() {
        Ok(Some(now)) if now == before => Ok(()),
        _ => card.set_stamps(before).map(drop),
    };
    match set {
        // It is gone, and its settings with it.
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(()),
        Err(e) => Err(refused(&format!("setting back the time stamps of {}", card.name()), &e)),
        Ok(()) => Ok(()),
    }
}
