//! Settings of a card that are changed for a measurement, and set back behind it: queues, how
//! packets are spread over them, rules.
//!
//! What was there is read, and noted in a file, before anything is changed; of an interface that
//! niclab made itself there is no note, for it goes with its namespace. What a card lacks is "not
//! supported", by its name.

use std::io;
use std::thread;
use std::time::Duration;

use niclab_nic::rss::Rss;
use serde::{Deserialize, Serialize};

use super::ethtool::info::Queues;
use super::ethtool::rss::{Fields, RssConfig};
use super::ethtool::{Card, is_unknown};
use super::link::Link;
use super::note::{Note, NoteContent, NoteKind};
use super::refused;
use crate::face::DeviceError;

/// How often queues are set that seem in use, and how long a pause is between two tries: the kernel
/// lets go of sockets of AF_XDP after the call that closes them.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// Notes of them.
const NOTES: NoteKind<PreviousSettings> = NoteKind::new("settings");

/// The settings of a card before they were changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct PreviousSettings {
    /// Its queues, where it tells of them.
    queues: Option<Queues>,
    /// Its RSS, where the driver reports it.
    rss: Option<RssConfig>,
    /// The hash fields, as far as the card reports them.
    fields: Vec<Fields>,
    /// Places of its n-tuple rules, where it has a table of them.
    rules: Option<Vec<u32>>,
    /// Whether n-tuple rules were switched on.
    ntuple: bool,
}

impl PreviousSettings {
    fn read(card: &mut Card) -> io::Result<PreviousSettings> {
        Ok(PreviousSettings {
            queues: card.channels()?.map(|channels| channels.now),
            rss: card.rss_config()?,
            fields: card.hash_fields()?,
            rules: card.rules()?.map(|table| table.taken),
            ntuple: card.ntuple()?,
        })
    }
}

/// A card whose settings are this process's, until this is dropped.
#[derive(Debug)]
pub struct HeldCard {
    card: Card,
    before: PreviousSettings,
    /// As messages call it.
    driver: String,
    /// To be removed when the card is as it was; `None` of an interface of niclab's own.
    note: Option<Note>,
    is_held: bool,
}

impl HeldCard {
    /// Takes an interface of the calling thread's namespace, which niclab made itself or not. What
    /// a killed process has left changed is taken for what that found.
    ///
    /// # Errors
    /// [`DeviceError::Rights`]; [`DeviceError::Broken`] where the driver does not answer, or
    /// another process has the card: nothing is changed then.
    pub fn hold(link: &Link, is_own: bool) -> Result<HeldCard, DeviceError> {
        let name = &link.name;
        let reading = |e| refused(&format!("reading the settings of {name}"), &e);
        let mut card = Card::open(name).map_err(reading)?;
        let driver = match card.driver() {
            Ok(driver) => format!("driver {}", driver.name),
            Err(e) if is_unknown(&e) => format!("driver of {name}"),
            Err(e) => return Err(reading(e)),
        };
        if is_own {
            let before = PreviousSettings::read(&mut card).map_err(reading)?;
            return Ok(HeldCard { card, before, driver, note: None, is_held: true });
        }
        let taken = NOTES.take(name, link.index)?.ok_or_else(|| DeviceError::Broken {
            device: format!("interface {name}"),
            reason: "another process of niclab has changed its settings; wait for its end".into(),
        })?;
        let (mut note, left) = taken;
        // Not before: whoever had it may have set it back just now.
        let now = PreviousSettings::read(&mut card).map_err(reading)?;
        let before = left.unwrap_or(now);
        note.write(name, &before)?;
        Ok(HeldCard { card, before, driver, note: Some(note), is_held: true })
    }

    /// The card, to be asked.
    pub fn card(&mut self) -> &mut Card {
        &mut self.card
    }

    /// How it says that it spreads packets, in the words of the software card; `None` where it does
    /// not tell, or in others.
    pub fn rss(&mut self) -> Option<Rss> {
        let config = self.card.rss_config().ok()??;
        config.as_rss(&self.card.hash_fields().ok()?)
    }

    /// Has `count` queues receive, and packets spread evenly over them where the card tells how it
    /// spreads.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `queues`; [`DeviceError::Rights`]; [`DeviceError::Broken`].
    pub fn receive_by(&mut self, count: u32) -> Result<(), DeviceError> {
        let channels = self.ask("queues", Card::channels)?;
        let Some(channels) = channels else {
            let why = format!("queues ({} reports none, and {count} are needed)", self.driver);
            return if count == 1 { Ok(()) } else { Err(DeviceError::lacks(why)) };
        };
        let config = self.ask("rss indirection", Card::rss_config)?;
        let has_table = config.is_some_and(|config| !config.indirection.is_empty());
        let now = channels.now.receiving();
        // Where there is a table, queues that it does not name receive nothing.
        if now < count || now > count && !has_table {
            let queues = channels.with_receiving(count).ok_or_else(|| {
                let most = channels.most.rx.max(channels.most.combined);
                DeviceError::lacks(format!(
                    "{count} queues ({} has {most} at most)",
                    self.card.name()
                ))
            })?;
            self.set("queues", |card| set_patiently(card, &queues))?;
        }
        // The card may have another table now.
        match self.ask("rss indirection", Card::rss_config)? {
            Some(config) if !config.indirection.is_empty() => {
                self.set_indirection(&config.evenly(count).indirection)
            }
            _ => Ok(()),
        }
    }

    /// Has the hash lead to these queues: one for each remainder, as many as the table has.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `rss indirection`; [`DeviceError::Rights`];
    /// [`DeviceError::Broken`].
    pub fn set_indirection(&mut self, queues: &[u32]) -> Result<(), DeviceError> {
        let transform =
            self.transform("rss indirection", |config| !config.indirection.is_empty())?;
        let config = RssConfig { indirection: queues.to_vec(), transform, ..RssConfig::default() };
        self.set("rss indirection", |card| card.set_rss_config(&config))
    }

    /// Has the hash take this key, as long as that of the card.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `rss key`; [`DeviceError::Rights`]; [`DeviceError::Broken`].
    #[cfg(test)]
    fn set_key(&mut self, key: &[u8]) -> Result<(), DeviceError> {
        let transform = self.transform("rss key", |config| !config.key.is_empty())?;
        let config = RssConfig { key: key.to_vec(), transform, ..RssConfig::default() };
        self.set("rss key", |card| card.set_rss_config(&config))
    }

    /// Has the hash of some packets take these fields.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `rss hash fields`; [`DeviceError::Rights`];
    /// [`DeviceError::Broken`].
    #[cfg(test)]
    fn set_hash_fields(&mut self, fields: Fields) -> Result<(), DeviceError> {
        self.set("rss hash fields", |card| card.set_hash_fields(fields))
    }

    /// Sees to it that n-tuple rules are switched on, as far as the card has a switch.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `n-tuple`, where it has no table of them;
    /// [`DeviceError::Rights`]; [`DeviceError::Broken`].
    pub fn take_rules(&mut self) -> Result<(), DeviceError> {
        if self.before.rules.is_none() {
            return Err(DeviceError::lacks(format!("n-tuple: {} has none", self.driver)));
        }
        match self.card.ntuple() {
            Ok(false) => match self.card.set_ntuple(true) {
                // Some drivers have rules and no switch.
                Err(e) if is_unknown(&e) || e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
                Err(e) => Err(refused("switching n-tuple rules on", &e)),
                Ok(()) => Ok(()),
            },
            // Without a switch they are on.
            _ => Ok(()),
        }
    }

    /// Takes the rules out that were not there before.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn clear_rules(&mut self) -> Result<(), DeviceError> {
        clear_rules(&mut self.card, &self.before).map_err(|e| refused("removing n-tuple rules", &e))
    }

    /// Sets everything back.
    ///
    /// # Errors
    /// What the kernel says against it. The note stays, then.
    #[cfg(test)]
    fn end(mut self) -> Result<(), DeviceError> {
        self.restore()
    }

    fn restore(&mut self) -> Result<(), DeviceError> {
        if !std::mem::take(&mut self.is_held) {
            return Ok(());
        }
        restore(&mut self.card, &self.before)?;
        self.note.take().map_or(Ok(()), Note::remove)
    }

    /// What is done to the fields of the hash, of a card that has this part of it.
    fn transform(&mut self, what: &str, has: fn(&RssConfig) -> bool) -> Result<u8, DeviceError> {
        let config = self.ask(what, Card::rss_config)?.filter(has);
        let config =
            config.ok_or_else(|| DeviceError::lacks(format!("{what} ({} has none)", self.driver)));
        config.map(|config| config.transform)
    }

    fn ask<T>(
        &mut self,
        what: &str,
        question: impl FnOnce(&mut Card) -> io::Result<T>,
    ) -> Result<T, DeviceError> {
        let answer = question(&mut self.card);
        answer.map_err(|e| refused(&format!("asking {} for its {what}", self.card.name()), &e))
    }

    fn set(
        &mut self,
        what: &str,
        change: impl FnOnce(&mut Card) -> io::Result<()>,
    ) -> Result<(), DeviceError> {
        change(&mut self.card).map_err(|e| match e.raw_os_error() {
            Some(libc::EOPNOTSUPP) => {
                DeviceError::lacks(format!("{what} ({} cannot set them)", self.driver))
            }
            _ => refused(&format!("setting the {what} of {}", self.card.name()), &e),
        })
    }
}

impl Drop for HeldCard {
    fn drop(&mut self) {
        // Where this fails the note stays, and `clean` tells of it.
        let _ = self.restore();
    }
}

/// Sets back what killed processes have left changed in the calling thread's namespace, and says
/// what. Notes of other namespaces are left alone.
///
/// # Errors
/// [`DeviceError::Rights`]; [`DeviceError::Broken`].
pub fn clean() -> Result<Vec<String>, DeviceError> {
    let mut cleaned = Vec::new();
    for (note, NoteContent { interface, process, before }, _) in NOTES.left()? {
        let card = Card::open(&interface);
        let mut card = card.map_err(|e| refused(&format!("opening {interface}"), &e))?;
        restore(&mut card, &before)?;
        note.remove()?;
        cleaned.push(format!(
            "interface {interface}: queues, RSS and rules as process {process} left them; they are \
             set back"
        ));
    }
    Ok(cleaned)
}

fn restore(card: &mut Card, before: &PreviousSettings) -> Result<(), DeviceError> {
    let restored = clear_rules(card, before).and_then(|()| set_back(card, before));
    match restored {
        // It is gone, and its settings with it.
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(()),
        Err(e) => Err(refused(&format!("setting {} back as it was", card.name()), &e)),
        Ok(()) => Ok(()),
    }
}

/// Gives a card so many queues, of which the last user may still be about to go.
fn set_patiently(card: &mut Card, queues: &Queues) -> io::Result<()> {
    for _ in 0..TRIES {
        match card.set_channels(queues) {
            Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EBUSY)) => {
                thread::sleep(PAUSE);
            }
            set => return set,
        }
    }
    card.set_channels(queues)
}

fn clear_rules(card: &mut Card, before: &PreviousSettings) -> io::Result<()> {
    let (Some(table), Some(known)) = (card.rules()?, &before.rules) else {
        return Ok(());
    };
    let ours = table.taken.into_iter().filter(|place| !known.contains(place));
    // The last first: some drivers move those behind one that goes.
    ours.rev().try_for_each(|place| card.remove(place))
}

fn set_back(card: &mut Card, before: &PreviousSettings) -> io::Result<()> {
    if !before.ntuple && card.ntuple()? {
        card.set_ntuple(false)?;
    }
    let config = card.rss_config()?;
    let now = card.channels()?.map(|channels| channels.now);
    if let Some(queues) = before.queues.filter(|queues| now != Some(*queues)) {
        // A table that names queues which are to go keeps the kernel from it.
        if let Some(config) = config.as_ref().filter(|config| !config.indirection.is_empty()) {
            let transform = config.transform;
            let indirection = config.evenly(1).indirection;
            card.set_rss_config(&RssConfig { indirection, transform, ..RssConfig::default() })?;
        }
        set_patiently(card, &queues)?;
    }
    if let Some(config) = before.rss.as_ref().filter(|before| config.as_ref() != Some(before)) {
        // The table that the kernel makes itself changes with the number of queues, and one that
        // was given does not: where it was the kernel's it is again.
        if !config.indirection.is_empty() {
            card.reset_indirection(config.transform)?;
        }
        if card.rss_config()?.as_ref() != Some(config) {
            card.set_rss_config(config)?;
        }
    }
    let fields = card.hash_fields()?;
    let changed = before.fields.iter().filter(|before| !fields.contains(before));
    changed.copied().try_for_each(|fields| card.set_hash_fields(fields))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::ethtool::rss::IP_SRC;
    use super::super::link;
    use super::super::netns::NetNs;
    use super::super::veth_tests::cores;
    use super::*;

    /// Carries out `work` where there is a veth pair, whose near end has eight queues each way and
    /// uses two.
    fn with_veth(test: &str, work: impl FnOnce(Link) + Send) {
        let Some(_cores) = cores(test) else {
            return;
        };
        let far_ns = NetNs::anonymous().unwrap();
        let made = NetNs::anonymous().unwrap().within(|| {
            let far = far_ns.fd().unwrap();
            link::make_pair("near0", "far0", far, (1_500, 8)).unwrap();
            let link = link::find("near0").unwrap().unwrap();
            card().set_channels(&Queues { rx: 2, tx: 2, ..Queues::default() }).unwrap();
            work(link);
        });
        made.unwrap();
    }

    fn card() -> Card {
        Card::open("near0").unwrap()
    }

    fn queues() -> (u32, u32) {
        let now = card().channels().unwrap().unwrap().now;
        (now.rx, now.tx)
    }

    fn path(link: &Link) -> PathBuf {
        NOTES.path(link.index).unwrap()
    }

    /// What a kill leaves of it.
    fn kill(mut held: HeldCard) {
        held.is_held = false;
        drop(held.note.take());
    }

    #[test]
    fn queues_are_set_for_as_long_as_the_card_is_held() {
        with_veth("queues_are_set_for_as_long_as_the_card_is_held", |link| {
            let mut held = HeldCard::hold(&link, false).unwrap();
            assert!(path(&link).exists(), "noted before anything is changed");
            held.receive_by(5).unwrap();
            assert_eq!(queues(), (5, 5));
            held.receive_by(1).unwrap();
            assert_eq!(queues(), (1, 1));
            let Err(DeviceError::Broken { device, reason }) = HeldCard::hold(&link, false) else {
                panic!("a second one must be refused");
            };
            assert_eq!(device, "interface near0");
            assert!(reason.starts_with("another process of niclab has changed"), "{reason}");
            assert_eq!(clean().unwrap(), Vec::<String>::new(), "who is at work is let be");
            assert_eq!(queues(), (1, 1));
            held.end().unwrap();
            assert_eq!(queues(), (2, 2));
            assert!(!path(&link).exists());
            let mut held = HeldCard::hold(&link, false).unwrap();
            held.receive_by(8).unwrap();
            drop(held);
            assert_eq!(queues(), (2, 2));
        });
    }

    #[test]
    fn changes_of_a_killed_process_are_undone() {
        with_veth("changes_of_a_killed_process_are_undone", |link| {
            let mut held = HeldCard::hold(&link, false).unwrap();
            held.receive_by(7).unwrap();
            kill(held);
            assert_eq!(queues(), (7, 7));
            // The next one knows what there was before the killed one.
            let mut held = HeldCard::hold(&link, false).unwrap();
            held.receive_by(3).unwrap();
            kill(held);
            let process = std::process::id();
            let expected = format!(
                "interface near0: queues, RSS and rules as process {process} left them; they are \
                 set back"
            );
            assert_eq!(clean().unwrap(), [expected]);
            assert_eq!(queues(), (2, 2));
            assert_eq!(clean().unwrap(), Vec::<String>::new());
            assert!(!path(&link).exists());
        });
    }

    #[test]
    fn missing_features_of_a_veth_are_named_and_nothing_is_changed() {
        with_veth("missing_features_of_a_veth_are_named_and_nothing_is_changed", |link| {
            let mut held = HeldCard::hold(&link, true).unwrap();
            assert!(!path(&link).exists(), "an interface of niclab's own goes by itself");
            let fields = Fields { flow: 1, fields: IP_SRC };
            for (refused, capability) in [
                (held.set_key(&[1; 40]), "rss key (driver veth has none)"),
                (held.set_indirection(&[0; 128]), "rss indirection (driver veth has none)"),
                (held.set_hash_fields(fields), "rss hash fields (driver veth cannot set them)"),
                (held.take_rules(), "n-tuple: driver veth has none"),
                (held.receive_by(9), "9 queues (near0 has 8 at most)"),
            ] {
                assert_eq!(refused, Err(DeviceError::lacks(capability)));
            }
            assert_eq!((queues(), held.rss()), ((2, 2), None));
            let lo = link::find("lo").unwrap().unwrap();
            let why = "queues (driver of lo reports none, and 2 are needed)";
            let mut held = HeldCard::hold(&lo, true).unwrap();
            assert_eq!(held.receive_by(2), Err(DeviceError::lacks(why)));
            assert_eq!(held.receive_by(1), Ok(()));
        });
    }

    #[test]
    fn an_interface_that_goes_takes_its_note_along() {
        with_veth("an_interface_that_goes_takes_its_note_along", |link| {
            let mut held = HeldCard::hold(&link, false).unwrap();
            held.receive_by(4).unwrap();
            let delete = ["link", "del", "near0"];
            assert!(std::process::Command::new("ip").args(delete).status().unwrap().success());
            held.end().unwrap();
            assert!(!path(&link).exists());
        });
    }
}
