//! Interrupt coalescing of an interface, over the ethtool family of generic netlink.
//!
//! Source: `Documentation/networking/ethtool-netlink.rst` and `linux/ethtool_netlink.h` of the
//! kernel, which has had the family since 5.6. A driver tells of the parameters that it has, and of
//! no other; what is not set in a request stays as it is.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use niclab_netlink::Netlink;
use rtnetlink::packet_core::{
    DecodeError, DefaultNla, Emitable, NLA_F_NESTED, NlasIterator, ParseableParametrized,
};
use serde::{Deserialize, Serialize};

/// Name of the family of messages.
const FAMILY: &str = "ethtool";
/// `ETHTOOL_GENL_VERSION`.
const VERSION: u8 = 1;
/// `ETHTOOL_MSG_COALESCE_GET` and `_SET`.
const GET: u8 = 19;
const SET: u8 = 20;
/// `ETHTOOL_A_COALESCE_HEADER`, and the interface's number in it.
const HEADER: u16 = 1;
const HEADER_DEV_INDEX: u16 = 1;

/// The parameters of interrupt coalescing, under the names of `ethtool -c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parameter {
    /// The driver chooses by the load: 0 or 1.
    AdaptiveRx,
    /// The same of what is sent.
    AdaptiveTx,
    /// Time after a packet has arrived, us.
    RxUsecs,
    /// Packets that have arrived.
    RxFrames,
    /// Time, while an interrupt is served, us.
    RxUsecsIrq,
    /// Packets, while an interrupt is served.
    RxFramesIrq,
    /// Time after a packet was sent, us.
    TxUsecs,
    /// Packets that were sent.
    TxFrames,
    /// Time, while an interrupt is served, us.
    TxUsecsIrq,
    /// Packets, while an interrupt is served.
    TxFramesIrq,
}

impl Parameter {
    /// Each with its number as an attribute (`ETHTOOL_A_COALESCE_…`).
    const ALL: [(Parameter, u16); 10] = [
        (Parameter::AdaptiveRx, 11),
        (Parameter::AdaptiveTx, 12),
        (Parameter::RxUsecs, 2),
        (Parameter::RxFrames, 3),
        (Parameter::RxUsecsIrq, 4),
        (Parameter::RxFramesIrq, 5),
        (Parameter::TxUsecs, 6),
        (Parameter::TxFrames, 7),
        (Parameter::TxUsecsIrq, 8),
        (Parameter::TxFramesIrq, 9),
    ];

    fn attribute(self) -> u16 {
        Parameter::ALL.into_iter().find(|(of, _)| *of == self).map_or(0, |(_, number)| number)
    }

    fn name(self) -> &'static str {
        match self {
            Parameter::AdaptiveRx => "adaptive-rx",
            Parameter::AdaptiveTx => "adaptive-tx",
            Parameter::RxUsecs => "rx-usecs",
            Parameter::RxFrames => "rx-frames",
            Parameter::RxUsecsIrq => "rx-usecs-irq",
            Parameter::RxFramesIrq => "rx-frames-irq",
            Parameter::TxUsecs => "tx-usecs",
            Parameter::TxFrames => "tx-frames",
            Parameter::TxUsecsIrq => "tx-usecs-irq",
            Parameter::TxFramesIrq => "tx-frames-irq",
        }
    }

    fn is_flag(self) -> bool {
        matches!(self, Parameter::AdaptiveRx | Parameter::AdaptiveTx)
    }

    /// The time beside a number of packets.
    fn time(self) -> Option<Parameter> {
        match self {
            Parameter::RxFrames => Some(Parameter::RxUsecs),
            Parameter::RxFramesIrq => Some(Parameter::RxUsecsIrq),
            Parameter::TxFrames => Some(Parameter::TxUsecs),
            Parameter::TxFramesIrq => Some(Parameter::TxUsecsIrq),
            _ => None,
        }
    }
}

/// The parameters that a driver has, and their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Coalescing(BTreeMap<Parameter, u32>);

impl Coalescing {
    /// The same with an interrupt for each packet, at once.
    ///
    /// No time, and no choice of the driver. A number of packets becomes one, for neither a time
    /// nor a number would mean no interrupt at all (`struct ethtool_coalesce`); where it is 0
    /// without a time beside it, it says nothing, and stays.
    pub fn off(&self) -> Coalescing {
        let value = |(parameter, value): (&Parameter, &u32)| {
            let off = match parameter.time() {
                None => 0,
                Some(time) => {
                    let has_time = self.0.get(&time).is_some_and(|us| *us > 0);
                    u32::from(*value > 0 || has_time)
                }
            };
            (*parameter, off)
        };
        Coalescing(self.0.iter().map(value).collect())
    }
}

impl fmt::Display for Coalescing {
    /// `adaptive-rx on, rx-usecs 8, rx-frames 128`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |(parameter, value): (&Parameter, &u32)| match (parameter.is_flag(), value) {
            (true, 0) => format!("{} off", parameter.name()),
            (true, _) => format!("{} on", parameter.name()),
            (false, value) => format!("{} {value}", parameter.name()),
        };
        f.write_str(&self.0.iter().map(text).collect::<Vec<_>>().join(", "))
    }
}

/// What the interface of this number does, in the calling thread's network namespace; `None` where
/// its driver has no coalescing, or the kernel does not tell.
pub fn read(index: u32) -> io::Result<Option<Coalescing>> {
    let Some(socket) = Ethtool::open()? else {
        return Ok(None);
    };
    let asked = Message { command: GET, index, values: Coalescing::default() };
    match socket.ask(asked) {
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        Err(e) => Err(e),
        Ok(reply) => Ok(reply.map(|reply| reply.values).filter(|values| !values.0.is_empty())),
    }
}

/// Has it do this. What is not named stays.
pub fn write(index: u32, values: &Coalescing) -> io::Result<()> {
    let socket = Ethtool::open()?.ok_or(io::ErrorKind::Unsupported)?;
    socket.ask(Message { command: SET, index, values: values.clone() }).map(|_| ())
}

/// A socket to the family, and its number.
struct Ethtool {
    netlink: Netlink,
    family: u16,
}

impl Ethtool {
    /// `None` where the kernel does not have it.
    fn open() -> io::Result<Option<Ethtool>> {
        let netlink = Netlink::generic()?;
        let name = vec![GenlCtrlAttrs::FamilyName(FAMILY.to_owned())];
        let asked = GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas: name };
        let answers = match netlink.request(GenlMessage::from_payload(asked), 0) {
            Err(e) if e.error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            answers => answers?,
        };
        let mut attributes = answers.iter().flat_map(|answer| &answer.payload.nlas);
        let family = attributes.find_map(|attribute| match attribute {
            GenlCtrlAttrs::FamilyId(id) => Some(*id),
            _ => None,
        });
        Ok(family.map(|family| Ethtool { netlink, family }))
    }

    fn ask(&self, message: Message) -> io::Result<Option<Message>> {
        let mut message = GenlMessage::from_payload(message);
        message.set_resolved_family_id(self.family);
        let answers = self.netlink.request(message, 0)?;
        Ok(answers.into_iter().next().map(|answer| answer.payload))
    }
}

/// A request to get or set, or its answer.
#[derive(Clone, Debug)]
struct Message {
    command: u8,
    index: u32,
    values: Coalescing,
}

impl Message {
    fn attributes(&self) -> Vec<DefaultNla> {
        let number = DefaultNla::new(HEADER_DEV_INDEX, self.index.to_ne_bytes().to_vec());
        let mut header = vec![0; number.buffer_len()];
        number.emit(&mut header);
        let value = |(parameter, value): (&Parameter, &u32)| {
            let bytes = match parameter.is_flag() {
                true => vec![u8::from(*value > 0)],
                false => value.to_ne_bytes().to_vec(),
            };
            DefaultNla::new(parameter.attribute(), bytes)
        };
        let header = DefaultNla::new(HEADER | NLA_F_NESTED, header);
        [header].into_iter().chain(self.values.0.iter().map(value)).collect()
    }
}

impl GenlFamily for Message {
    fn family_name() -> &'static str {
        FAMILY
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        VERSION
    }
}

impl Emitable for Message {
    fn buffer_len(&self) -> usize {
        self.attributes().as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes().as_slice().emit(buffer);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Message {
    fn parse_with_param(bytes: &[u8], header: GenlHeader) -> Result<Message, DecodeError> {
        let mut values = BTreeMap::new();
        for attribute in NlasIterator::new(bytes) {
            let attribute = attribute?;
            let number = attribute.kind();
            let of = Parameter::ALL.into_iter().find(|(_, of)| *of == number);
            let value = match attribute.value() {
                [flag] => u32::from(*flag),
                &[a, b, c, d] => u32::from_ne_bytes([a, b, c, d]),
                _ => continue,
            };
            values.extend(of.map(|(parameter, _)| (parameter, value)));
        }
        Ok(Message { command: header.cmd, index: 0, values: Coalescing(values) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coalescing(values: &[(Parameter, u32)]) -> Coalescing {
        Coalescing(values.iter().copied().collect())
    }

    #[test]
    fn coalescing_off_means_an_interrupt_for_each_packet() {
        use Parameter::*;
        // As drivers have them: mlx5, ixgbe, virtio_net, tun.
        for (on, off) in [
            (
                [(AdaptiveRx, 1), (RxUsecs, 8), (RxFrames, 128), (TxUsecs, 8), (TxFrames, 128)]
                    .as_slice(),
                [(AdaptiveRx, 0), (RxUsecs, 0), (RxFrames, 1), (TxUsecs, 0), (TxFrames, 1)]
                    .as_slice(),
            ),
            (&[(RxUsecs, 1), (TxUsecs, 0)], &[(RxUsecs, 0), (TxUsecs, 0)]),
            (&[(RxUsecs, 16), (RxFrames, 0)], &[(RxUsecs, 0), (RxFrames, 1)]),
            (&[(RxFrames, 1), (TxFrames, 0)], &[(RxFrames, 1), (TxFrames, 0)]),
            (&[(RxFrames, 64)], &[(RxFrames, 1)]),
            (&[(RxFramesIrq, 4), (RxUsecsIrq, 2)], &[(RxFramesIrq, 1), (RxUsecsIrq, 0)]),
        ] {
            assert_eq!(coalescing(on).off(), coalescing(off));
            assert_eq!(coalescing(off).off(), coalescing(off), "of what is off already");
        }
    }

    #[test]
    fn values_are_told_by_the_names_of_ethtool() {
        use Parameter::*;
        let values = coalescing(&[(AdaptiveRx, 1), (AdaptiveTx, 0), (RxUsecs, 8), (TxFrames, 3)]);
        assert_eq!(values.to_string(), "adaptive-rx on, adaptive-tx off, rx-usecs 8, tx-frames 3");
        let json = r#"{"adaptive-rx":1,"adaptive-tx":0,"rx-usecs":8,"tx-frames":3}"#;
        assert_eq!(serde_json::to_string(&values).unwrap(), json);
        for (parameter, _) in Parameter::ALL {
            let json = serde_json::to_string(&parameter).unwrap();
            assert_eq!(json, format!("\"{}\"", parameter.name()));
        }
    }

    #[test]
    fn a_message_is_what_the_kernel_defines() {
        let values = coalescing(&[(Parameter::AdaptiveRx, 1), (Parameter::RxUsecs, 7)]);
        let message = Message { command: SET, index: 3, values: values.clone() };
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        let expected: Vec<u8> = [
            [12u16.to_ne_bytes(), 0x8001u16.to_ne_bytes()].concat(),
            [8u16.to_ne_bytes(), 1u16.to_ne_bytes()].concat(),
            3u32.to_ne_bytes().to_vec(),
            [5u16.to_ne_bytes(), 11u16.to_ne_bytes()].concat(),
            vec![1, 0, 0, 0],
            [8u16.to_ne_bytes(), 2u16.to_ne_bytes()].concat(),
            7u32.to_ne_bytes().to_vec(),
        ]
        .concat();
        assert_eq!(bytes, expected);
        let header = GenlHeader { cmd: GET, version: VERSION };
        assert_eq!(Message::parse_with_param(&bytes, header).unwrap().values, values);
        bytes.truncate(bytes.len() - 2);
        assert!(Message::parse_with_param(&bytes, header).is_err(), "a message that is cut");
    }

    #[test]
    fn the_loopback_interface_has_none_and_a_missing_one_is_an_error() {
        assert_eq!(read(1).unwrap(), None);
        assert_eq!(read(u32::MAX >> 1).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
