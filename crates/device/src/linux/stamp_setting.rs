//! The setting of a card's time stamps, changed for a measurement and set back behind it.
//!
//! As with other settings, what was there is noted in a file before anything is changed.

use std::io;

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

/// The setting of time stamps that a card has; tests have one without a card.
trait StampCard {
    /// The name of its interface.
    fn name(&self) -> &str;

    /// Reads the setting; `None` where it cannot be read.
    fn setting(&mut self) -> io::Result<Option<StampSetting>>;

    /// Changes the setting, and returns the one that holds now.
    fn set(&mut self, setting: StampSetting) -> io::Result<StampSetting>;
}

impl StampCard for Card {
    fn name(&self) -> &str {
        Card::name(self)
    }

    fn setting(&mut self) -> io::Result<Option<StampSetting>> {
        self.stamp_setting()
    }

    fn set(&mut self, setting: StampSetting) -> io::Result<StampSetting> {
        self.set_stamps(setting)
    }
}

/// A card that stamps frames.
#[derive(Debug)]
struct HeldStamps<C: StampCard = Card> {
    card: C,
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
        HeldStamps::hold((card, &driver), link, frames)
    }
}

impl<C: StampCard> HeldStamps<C> {
    /// Has a card of this driver stamp these frames.
    fn hold(
        (mut card, driver): (C, &str),
        link: &Link,
        frames: RxFilter,
    ) -> Result<HeldStamps<C>, DeviceError> {
        let name = &link.name;
        // Before the setting is read: whoever has the note may set it back just now.
        let taken = NOTES.take(name, link.index)?.ok_or_else(|| DeviceError::Broken {
            device: format!("interface {name}"),
            reason: "another process of niclab has changed its time stamps; wait for its end"
                .into(),
        })?;
        let (mut note, left) = taken;
        let reading = |e| refused(&format!("reading the time stamps of {name}"), &e);
        let now = card.setting().map_err(reading)?.ok_or_else(|| {
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
        let set = held.card.set(wanted);
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

impl<C: StampCard> Drop for HeldStamps<C> {
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
    clean_by(Card::open)
}

/// The same of cards that are opened by the names of their interfaces.
fn clean_by<C: StampCard>(
    open: impl Fn(&str) -> io::Result<C>,
) -> Result<Vec<String>, DeviceError> {
    let mut cleaned = Vec::new();
    for (note, NoteContent { interface, process, before }, _) in NOTES.left()? {
        let card = open(&interface);
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

fn restore<C: StampCard>(card: &mut C, before: StampSetting) -> Result<(), DeviceError> {
    let set = match card.setting() {
        Ok(Some(now)) if now == before => Ok(()),
        _ => card.set(before).map(drop),
    };
    match set {
        // It is gone, and its settings with it.
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(()),
        Err(e) => Err(refused(&format!("setting back the time stamps of {}", card.name()), &e)),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::{env, fs};

    use super::super::link;
    use super::super::netns::NetNs;
    use super::super::veth_tests::cores;
    use super::*;

    /// The file with the setting of [`FileCard`], for the process that is killed.
    const SETTING: &str = "NICLAB_TEST_STAMP_SETTING";

    /// A card whose setting is in a file, and outlives a process as that of a card does: veth pairs
    /// have none.
    struct FileCard {
        interface: String,
        setting: PathBuf,
    }

    impl FileCard {
        fn open(interface: &str, setting: &Path) -> FileCard {
            FileCard { interface: interface.to_owned(), setting: setting.to_owned() }
        }
    }

    impl StampCard for FileCard {
        fn name(&self) -> &str {
            &self.interface
        }

        fn setting(&mut self) -> io::Result<Option<StampSetting>> {
            Ok(serde_json::from_slice(&fs::read(&self.setting)?).ok())
        }

        fn set(&mut self, setting: StampSetting) -> io::Result<StampSetting> {
            fs::write(&self.setting, serde_json::to_vec(&setting)?)?;
            Ok(setting)
        }
    }

    /// Has the interface `near0` stamp all frames.
    fn hold(setting: &Path) -> Result<HeldStamps<FileCard>, DeviceError> {
        let link = link::find("near0").unwrap().unwrap();
        HeldStamps::hold((FileCard::open("near0", setting), "fake"), &link, RxFilter::All)
    }

    fn clean(setting: &Path) -> Vec<String> {
        clean_by(|name| Ok(FileCard::open(name, setting))).unwrap()
    }

    /// Carries out `work` where there is an interface `near0` whose card stamps PTP frames; `work`
    /// gets the file with that setting.
    fn with_card(test: &str, work: impl FnOnce(&Path) + Send) {
        let Some(_cores) = cores(test) else { return };
        let directory = tempfile::tempdir().unwrap();
        let setting = directory.path().join("setting");
        FileCard::open("near0", &setting).set(StampSetting::of(RxFilter::Ptp)).unwrap();
        let far_ns = NetNs::anonymous().unwrap();
        let made = NetNs::anonymous().unwrap().within(|| {
            link::make_pair("near0", "far0", far_ns.fd().unwrap(), (1_500, 1)).unwrap();
            work(&setting);
        });
        made.unwrap();
    }

    fn frames(setting: &Path) -> RxFilter {
        let now = FileCard::open("near0", setting).setting().unwrap();
        let of = [RxFilter::All, RxFilter::Ptp];
        of.into_iter().find(|frames| Some(StampSetting::of(*frames)) == now).unwrap()
    }

    fn note() -> PathBuf {
        NOTES.path(link::find("near0").unwrap().unwrap().index).unwrap()
    }

    /// Another process that has the card stamp all frames.
    fn other_process(setting: &Path) -> Child {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "linux::stamp_setting::tests::stamps_until_it_is_killed"])
            .args(["--ignored", "--nocapture"])
            .env(SETTING, setting)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.ends_with("stamps")));
        child
    }

    fn kill_9(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    #[ignore = "the other process of the tests below"]
    fn stamps_until_it_is_killed() {
        let setting = PathBuf::from(env::var_os(SETTING).unwrap());
        let _held = hold(&setting).unwrap();
        println!("\nstamps");
        std::thread::sleep(std::time::Duration::from_secs(10));
    }

    #[test]
    fn a_second_process_is_refused_the_card_meanwhile() {
        with_card("a_second_process_is_refused_the_card_meanwhile", |setting| {
            let child = other_process(setting);
            assert_eq!(frames(setting), RxFilter::All);
            let Err(DeviceError::Broken { device, reason }) = hold(setting).map(drop) else {
                panic!("it must be refused");
            };
            assert_eq!(device, "interface near0");
            assert!(reason.starts_with("another process of niclab has changed"), "{reason}");
            assert_eq!(clean(setting), Vec::<String>::new(), "who is at work is let be");
            assert_eq!(frames(setting), RxFilter::All);
            kill_9(child);
        });
    }

    #[test]
    fn clean_sets_back_what_a_killed_process_has_left() {
        with_card("clean_sets_back_what_a_killed_process_has_left", |setting| {
            let child = other_process(setting);
            let process = child.id();
            kill_9(child);
            assert_eq!(frames(setting), RxFilter::All);
            let expected = format!(
                "interface near0: time stamps of the card, turned on by process {process}; they \
                 are set back"
            );
            assert_eq!(clean(setting), [expected]);
            assert_eq!(frames(setting), RxFilter::Ptp);
            assert!(!note().exists());
            assert_eq!(clean(setting), Vec::<String>::new());
        });
    }

    #[test]
    fn the_next_process_sets_back_what_was_there_before_the_killed_one() {
        let test = "the_next_process_sets_back_what_was_there_before_the_killed_one";
        with_card(test, |setting| {
            kill_9(other_process(setting));
            let held = hold(setting).unwrap();
            assert_eq!(frames(setting), RxFilter::All);
            assert!(note().exists());
            drop(held);
            assert_eq!(frames(setting), RxFilter::Ptp);
            assert!(!note().exists());
        });
    }

    #[test]
    fn a_card_that_cannot_be_set_back_keeps_its_note() {
        with_card("a_card_that_cannot_be_set_back_keeps_its_note", |setting| {
            kill_9(other_process(setting));
            // A veth end refuses the setting, as a card may.
            let error = super::clean().unwrap_err().to_string();
            assert!(error.contains("setting back the time stamps of near0"), "{error}");
            assert!(note().exists());
            assert_eq!(clean(setting).len(), 1);
        });
    }
}
