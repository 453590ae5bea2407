//! Interrupt coalescing that is turned off for a measurement, and set back behind it.
//!
//! What was there before is noted in a file before anything is changed, and the file goes when it
//! is set back; where a process was killed, [`clean`] does what it had no time for.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use super::coalescing::{self, Coalescing};
use super::link;
use super::name::{Ends, Name};
use super::note::{Note, NoteContent, NoteKind};
use super::refused;
use crate::face::{DeviceError, Fact};
use crate::two_hosts::Role;
use crate::{address, peer};

/// Notes of it.
const NOTES: NoteKind<Coalescing> = NoteKind::new("coalescing");

/// An interface whose coalescing is off until this is dropped.
#[derive(Debug)]
pub struct Tuned {
    interface: String,
    index: u32,
    before: Coalescing,
    /// To be removed when the interface is as it was; `None` when that is done.
    note: Option<Note>,
}

impl Tuned {
    /// Its interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The previous setting, as a fact about a device.
    pub fn fact(&self) -> Fact {
        let name = format!("coalescing of {} before it was turned off", self.interface);
        Fact { name, value: self.before.to_string() }
    }

    /// Sets it back.
    ///
    /// # Errors
    /// What the kernel says against it. The note stays, then.
    pub fn end(mut self) -> Result<(), DeviceError> {
        self.restore()
    }

    fn restore(&mut self) -> Result<(), DeviceError> {
        let Some(note) = self.note.take() else {
            return Ok(());
        };
        restore(self.index, &self.interface, &self.before)?;
        note.remove()
    }
}

impl Drop for Tuned {
    fn drop(&mut self) {
        // Where this fails the note stays, and `clean` tells of it.
        let _ = self.restore();
    }
}

/// The interfaces of this host that packets of a device pass, as far as they are not niclab's own.
///
/// # Errors
/// [`DeviceError::BadName`]; [`DeviceError::Absent`] where there is no way to the peer.
pub fn interfaces(device: &str) -> Result<Vec<String>, DeviceError> {
    if device.starts_with("peer:") {
        return Ok(toward(peer::of_device(device)?)?.into_iter().collect());
    }
    let name = Name::is_one(device).then(|| Name::parse(device, Role::Whole)).transpose()?;
    match name.map(|name| name.ends) {
        Some(Ends::Named { tester, device }) => Ok(vec![tester, device]),
        Some(Ends::Veth | Ends::Alone(_)) | None => Ok(Vec::new()),
    }
}

/// The interface that has this address; `None` where none has, or all are meant. A link-local
/// address names it itself.
///
/// # Errors
/// What the kernel says against looking.
pub fn interface_of(address: SocketAddr) -> Result<Option<String>, DeviceError> {
    if let SocketAddr::V6(of_link) = address
        && let Some(name) = address::interface(of_link.scope_id())
    {
        return Ok(Some(name));
    }
    let found = link::of_address(address.ip());
    found.map_err(|e| refused("looking for the interface of an address", &e))
}

/// The interface that packets to a server leave by.
pub(crate) fn toward(server: SocketAddr) -> Result<Option<String>, DeviceError> {
    let any: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    // Nothing is sent: to connect is to choose the way.
    let chosen = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(server)?;
        socket.local_addr()
    });
    let local = chosen.map_err(|e| DeviceError::Absent {
        what: format!("a way to {server} ({e})"),
        remedy: format!("`ip route get {}` says what is missing", server.ip()),
    })?;
    interface_of(local)
}

/// What an interface of the process's namespace does, as a fact about a device; `None` where it
/// has nothing of the kind.
pub fn fact(interface: &str) -> Option<Fact> {
    let link = link::find(interface).ok()??;
    let told = coalescing::read(link.index).ok()?;
    let value = told.map_or_else(|| "none that can be set".to_owned(), |told| told.to_string());
    Some(Fact { name: format!("coalescing of {interface}"), value })
}

/// Turns coalescing of an interface of the calling thread's namespace off; `None` where its driver
/// has none. What a killed process has left turned off is taken for what that found.
///
/// # Errors
/// [`DeviceError::Absent`]; [`DeviceError::Rights`]; [`DeviceError::Broken`] where the driver
/// refuses, or another process has turned it off: nothing is changed then.
pub fn tune(interface: &str) -> Result<Option<Tuned>, DeviceError> {
    let link = link::find(interface).map_err(|e| refused("looking up an interface", &e))?;
    let link = link.ok_or_else(|| DeviceError::Absent {
        what: format!("interface {interface}"),
        remedy: "`ip link` lists those that are here".into(),
    })?;
    let reading = |e| refused(&format!("reading the coalescing of {interface}"), &e);
    let Some(now) = coalescing::read(link.index).map_err(reading)? else {
        return Ok(None);
    };
    let taken = NOTES.take(interface, link.index)?;
    let (mut note, left) = taken.ok_or_else(|| DeviceError::Broken {
        device: format!("interface {interface}"),
        reason: "another process of niclab has turned its coalescing off; wait for its end".into(),
    })?;
    let before = left.unwrap_or_else(|| now.clone());
    note.write(interface, &before)?;
    let off = before.off();
    // From here on the note is the guard's, which undoes what was done, if anything.
    let tuned = Tuned { interface: interface.into(), index: link.index, before, note: Some(note) };
    if off != now {
        let what = format!("turning the coalescing of {interface} off ({off})");
        coalescing::write(link.index, &off).map_err(|e| refused(&what, &e))?;
    }
    Ok(Some(tuned))
}

/// Sets back what killed processes have left turned off in the calling thread's namespace, and says
/// what. Notes of other namespaces are left alone.
///
/// # Errors
/// [`DeviceError::Rights`]; [`DeviceError::Broken`].
pub fn clean() -> Result<Vec<String>, DeviceError> {
    let mut cleaned = Vec::new();
    for (note, NoteContent { interface, process, before }, index) in NOTES.left()? {
        restore(index, &interface, &before)?;
        note.remove()?;
        cleaned.push(format!(
            "interface {interface}: no coalescing, left by process {process}; it is set back to \
             {before}"
        ));
    }
    Ok(cleaned)
}

fn restore(index: u32, interface: &str, before: &Coalescing) -> Result<(), DeviceError> {
    match coalescing::write(index, before) {
        // It is gone, and its settings with it.
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(()),
        Err(e) => Err(refused(&format!("setting the coalescing of {interface} to {before}"), &e)),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::process::Command;

    use super::super::netns::NetNs;
    use super::super::veth_tests::cores;
    use super::*;

    /// Carries out `work` where there is a TAP that holds back interrupts for so many packets.
    fn with_tap(test: &str, frames: u32, work: impl FnOnce(u32) + Send) {
        let Some(_cores) = cores(test) else {
            return;
        };
        let made = NetNs::anonymous().unwrap().within(|| {
            let add = ["tuntap", "add", "dev", "tap0", "mode", "tap"];
            if !Command::new("ip").args(add).status().is_ok_and(|status| status.success()) {
                return false;
            }
            let index = link::find("tap0").unwrap().unwrap().index;
            coalescing::write(index, &rx_frames(frames)).unwrap();
            work(index);
            true
        });
        if !made.unwrap() {
            println!("SKIP {test}: `ip tuntap add` makes no TAP here");
        }
    }

    fn rx_frames(frames: u32) -> Coalescing {
        serde_json::from_value(serde_json::json!({ "rx-frames": frames })).unwrap()
    }

    fn path(index: u32) -> PathBuf {
        NOTES.path(index).unwrap()
    }

    fn coalescing_of(index: u32) -> Coalescing {
        coalescing::read(index).unwrap().unwrap()
    }

    /// What a kill leaves of it.
    fn kill(mut tuned: Tuned) {
        drop(tuned.note.take());
    }

    #[test]
    fn coalescing_is_off_for_as_long_as_it_is_held() {
        with_tap("coalescing_is_off_for_as_long_as_it_is_held", 16, |index| {
            let tuned = tune("tap0").unwrap().unwrap();
            assert_eq!(coalescing_of(index), rx_frames(1));
            let fact = Fact {
                name: "coalescing of tap0 before it was turned off".into(),
                value: "rx-frames 16".into(),
            };
            assert_eq!((tuned.interface(), tuned.fact()), ("tap0", fact));
            let now = Fact { name: "coalescing of tap0".into(), value: "rx-frames 1".into() };
            assert_eq!(super::fact("tap0"), Some(now));

            let Err(DeviceError::Broken { device, reason }) = tune("tap0") else {
                panic!("a second one must be refused");
            };
            assert_eq!(device, "interface tap0");
            assert!(reason.starts_with("another process of niclab has turned"), "{reason}");
            assert_eq!(clean().unwrap(), Vec::<String>::new(), "who is at work is let be");
            assert_eq!(coalescing_of(index), rx_frames(1));

            tuned.end().unwrap();
            assert_eq!(coalescing_of(index), rx_frames(16));
            assert!(!path(index).exists());
            drop(tune("tap0").unwrap().unwrap());
            assert_eq!(coalescing_of(index), rx_frames(16));
        });
    }

    #[test]
    fn coalescing_that_a_killed_process_turned_off_is_restored() {
        with_tap("coalescing_that_a_killed_process_turned_off_is_restored", 16, |index| {
            kill(tune("tap0").unwrap().unwrap());
            assert_eq!(coalescing_of(index), rx_frames(1));
            let process = std::process::id();
            let expected = format!(
                "interface tap0: no coalescing, left by process {process}; it is set back to \
                 rx-frames 16"
            );
            assert_eq!(clean().unwrap(), [expected]);
            assert_eq!(coalescing_of(index), rx_frames(16));
            assert_eq!(clean().unwrap(), Vec::<String>::new());

            // The next one that turns it off knows what there was before the killed one.
            kill(tune("tap0").unwrap().unwrap());
            let again = tune("tap0").unwrap().unwrap();
            assert_eq!(again.fact().value, "rx-frames 16");
            again.end().unwrap();
            assert_eq!(coalescing_of(index), rx_frames(16));

            // Killed before the note was whole: nothing was changed then.
            fs::create_dir_all(path(index).parent().unwrap()).unwrap();
            fs::write(path(index), r#"{"interface":"tap0","process":1,"bef"#).unwrap();
            assert_eq!(clean().unwrap(), Vec::<String>::new());
            assert_eq!(coalescing_of(index), rx_frames(16));
            assert!(!path(index).exists());
        });
    }

    #[test]
    fn an_interface_that_goes_takes_its_note_along() {
        with_tap("an_interface_that_goes_takes_its_note_along", 16, |index| {
            let tuned = tune("tap0").unwrap().unwrap();
            let delete = ["tuntap", "del", "dev", "tap0", "mode", "tap"];
            assert!(Command::new("ip").args(delete).status().unwrap().success());
            tuned.end().unwrap();
            assert!(!path(index).exists());
        });
    }

    #[test]
    fn interfaces_without_coalescing_and_missing_ones_are_told_apart() {
        assert!(tune("lo").unwrap().is_none());
        let missing = tune("niclab-none").unwrap_err();
        assert!(matches!(missing, DeviceError::Absent { .. }), "{missing}");
    }

    #[test]
    fn a_device_names_the_interfaces_that_its_packets_pass() {
        assert_eq!(interfaces("linux:eth8,eth9").unwrap(), ["eth8", "eth9"]);
        assert_eq!(interfaces("linux-xdp:eth8,eth9").unwrap(), ["eth8", "eth9"]);
        assert_eq!(interfaces("peer:127.0.0.1").unwrap(), ["lo"]);
        for without in ["linux:veth", "soft", "model:cx5", "dpdk:--vdev=net_ring0"] {
            assert_eq!(interfaces(without).unwrap(), Vec::<String>::new());
        }
        assert!(interfaces("linux:eth8").is_err());
        assert!(interfaces("peer:niclab.invalid:port").is_err());
    }
}
