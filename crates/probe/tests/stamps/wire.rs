//! Two network namespaces without a name and a veth pair between them: `near` and `far`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, id};
use std::thread;
use std::time::Duration;

use niclab_packet::echo::{MessageHeader, MessageKind, Stamp, StampPoint, put_stamp};
use niclab_probe::{Hook, ProbeError, Stamps};

use crate::system::{Raw, enter, new_namespace};

pub const PORT: u16 = 7000;

/// Both ends have the same index, each in its own namespace.
pub const INDEX: u32 = 2;

/// Which of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Near,
    Far,
}

impl End {
    pub fn name(self) -> &'static str {
        match self {
            End::Near => "near",
            End::Far => "far",
        }
    }

    fn number(self) -> u8 {
        self as u8 + 1
    }

    pub fn mac(self) -> [u8; 6] {
        [2, 0, 0, 0, 0, self.number()]
    }

    pub fn ip(self, v6: bool) -> IpAddr {
        match v6 {
            false => Ipv4Addr::new(10, 0, 0, self.number()).into(),
            true => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, self.number().into()).into(),
        }
    }
}

/// The two namespaces, which go when this is dropped.
pub struct Wire {
    near: OwnedFd,
    far: OwnedFd,
}

impl Wire {
    /// Lays one; without the right for it says so and gives `None`.
    pub fn lay(test: &str) -> Option<Wire> {
        if !rustix::process::geteuid().is_root() {
            println!("SKIP {test}: needs root");
            return None;
        }
        let make = || in_thread(|| new_namespace().ok());
        let (Some(near), Some(far)) = (make(), make()) else {
            println!("SKIP {test}: no network namespaces here");
            return None;
        };
        let wire = Wire { near, far };
        let far = format!("/proc/{}/fd/{}", id(), wire.far.as_raw_fd());
        wire.type_in(
            End::Near,
            &format!("ip link add near index 2 type veth peer name far index 2 netns {far}"),
        );
        for end in [End::Near, End::Far] {
            let (name, other) = (end.name(), if end == End::Near { End::Far } else { End::Near });
            let mac = |end: End| end.mac().map(|byte| format!("{byte:02x}")).join(":");
            wire.type_in(end, &format!("ip link set {name} address {} up", mac(end)));
            wire.type_in(end, &format!("ip addr add {}/24 dev {name}", end.ip(false)));
            wire.type_in(end, &format!("ip addr add {}/64 dev {name} nodad", end.ip(true)));
            for v6 in [false, true] {
                let entry = format!("{} lladdr {} nud permanent", other.ip(v6), mac(other));
                wire.type_in(end, &format!("ip neigh add {entry} dev {name}"));
            }
        }
        Some(wire)
    }

    /// Carries out `work` on a thread in the namespace of one end.
    pub fn within<T: Send>(&self, end: End, work: impl FnOnce() -> T + Send) -> T {
        let namespace = match end {
            End::Near => &self.near,
            End::Far => &self.far,
        };
        in_thread(|| {
            enter(namespace).unwrap();
            work()
        })
    }

    /// What a command prints that is typed in the namespace of one end.
    pub fn type_in(&self, end: End, command: &str) -> String {
        let mut words = command.split(' ');
        let program = words.next().unwrap();
        let output = self.within(end, || Command::new(program).args(words).output().unwrap());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn attach(&self, end: End, hook: Hook) -> Stamps {
        self.within(end, || Stamps::attach_by(hook, INDEX, PORT)).unwrap()
    }

    /// A UDP socket that waits no longer than tests do.
    pub fn udp(&self, end: End, address: SocketAddr) -> UdpSocket {
        let socket = self.within(end, || UdpSocket::bind(address)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        socket
    }

    /// The near socket, connected, and the far one at our port.
    pub fn udp_pair(&self, v6: bool) -> (UdpSocket, UdpSocket) {
        let server = SocketAddr::new(End::Far.ip(v6), PORT);
        let client = self.udp(End::Near, SocketAddr::new(End::Near.ip(v6), 0));
        client.connect(server).unwrap();
        (client, self.udp(End::Far, server))
    }

    pub fn raw(&self, end: End) -> Raw {
        self.within(end, || Raw::open(INDEX)).unwrap()
    }
}

/// The ways in which this kernel lets programs be attached; says which one it lacks.
pub fn hooks(wire: &Wire, test: &str) -> Vec<Hook> {
    let attached = |hook| match wire.within(End::Near, || Stamps::attach_by(hook, INDEX, PORT)) {
        Ok(_) => true,
        Err(e @ (ProbeError::NoTcx | ProbeError::NoClsact)) => {
            println!("SKIP {test}: {e}");
            false
        }
        Err(e) => panic!("{e}"),
    };
    [Hook::Tcx, Hook::Clsact].into_iter().filter(|hook| attached(*hook)).collect()
}

fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// A request of so many bytes: a head, the client's own stamp, and a pattern behind the stamps.
pub fn request(len: u16, number: u32) -> Vec<u8> {
    let mut message: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    MessageHeader { kind: MessageKind::Request, len, run: 3, number }.write(&mut message);
    niclab_packet::echo::clear_stamps(&mut message);
    put_stamp(&mut message, StampPoint::ClientSend, Stamp { time_ns: now_ns(), core: None });
    message
}

/// The clock of the stamps.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
