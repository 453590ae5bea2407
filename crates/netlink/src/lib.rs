//! Requests to the kernel over netlink (RFC 3549), one at a time.
//!
//! A socket stays in the network namespace of the thread that opened it, wherever it is used.
#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::io;

use netlink_packet_core::{
    ErrorMessage, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable, NlasIterator,
};
use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};

/// The flags of an error message (`linux/netlink.h`): the copy of the request is cut after its
/// header, and attributes follow it.
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
/// The attribute with the kernel's words.
const NLMSGERR_ATTR_MSG: u16 = 1;
/// The length of a message header (`struct nlmsghdr`), bytes.
const HEADER_LEN: usize = 16;

/// A socket to the kernel.
#[derive(Debug)]
pub struct Netlink(Socket);

/// The kernel refused a request, or a socket failed.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.text())]
pub struct Refusal {
    /// The number of the error.
    pub error: io::Error,
    /// The kernel's own words, where it has any.
    pub words: Option<String>,
}

impl Refusal {
    fn text(&self) -> String {
        let error = &self.error;
        self.words.as_ref().map_or_else(|| error.to_string(), |words| format!("{words} ({error})"))
    }

    fn of(message: &ErrorMessage, flags: u16) -> Refusal {
        let is_capped = flags & NLM_F_CAPPED != 0;
        let len = message.header.first_chunk().map_or(0, |len| u32::from_ne_bytes(*len)) as usize;
        let copied = if is_capped { HEADER_LEN } else { len.next_multiple_of(4) };
        let attributes = message.header.get(copied..).filter(|_| flags & NLM_F_ACK_TLVS != 0);
        let words = NlasIterator::new(attributes.unwrap_or_default())
            .map_while(Result::ok)
            .find(|attribute| attribute.kind() == NLMSGERR_ATTR_MSG)
            .map(|words| String::from_utf8_lossy(words.value()).trim_end_matches('\0').to_owned());
        Refusal { error: message.to_io(), words }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal { error, words: None }
    }
}

/// Without the kernel's words: those who ask for the number need the number.
impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> io::Error {
        refusal.error
    }
}

impl Netlink {
    /// A socket for interfaces, addresses, qdiscs and filters, in the calling thread's network
    /// namespace.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn route() -> io::Result<Netlink> {
        Netlink::open(NETLINK_ROUTE)
    }

    /// A socket for families of generic netlink, in the calling thread's network namespace.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn generic() -> io::Result<Netlink> {
        Netlink::open(NETLINK_GENERIC)
    }

    fn open(protocol: isize) -> io::Result<Netlink> {
        let socket = Socket::new(protocol)?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_ext_ack(true)?;
        Ok(Netlink(socket))
    }

    /// Sends a request and waits until the kernel has carried it out; the kernel's messages before
    /// its acknowledgement.
    ///
    /// # Errors
    /// The kernel's refusal; [`io::ErrorKind::InvalidData`] for an answer that cannot be read.
    pub fn request<M>(&self, message: M, flags: u16) -> Result<Vec<M>, Refusal>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        self.ask(message, NLM_F_ACK | flags)
    }

    /// All that the kernel has of one kind.
    ///
    /// # Errors
    /// As [`Netlink::request`].
    pub fn dump<M>(&self, message: M) -> Result<Vec<M>, Refusal>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        self.ask(message, NLM_F_DUMP)
    }

    fn ask<M>(&self, message: M, flags: u16) -> Result<Vec<M>, Refusal>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        let payload = NetlinkPayload::InnerMessage(message);
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
        message.header.flags = NLM_F_REQUEST | flags;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            let (bytes, _) = self.0.recv_from_full()?;
            if collect(&bytes, &mut answers)? {
                return Ok(answers);
            }
        }
    }
}

/// Takes the messages out of one datagram; true if the last message is among them.
fn collect<M: NetlinkDeserializable>(
    mut bytes: &[u8],
    answers: &mut Vec<M>,
) -> Result<bool, Refusal> {
    while !bytes.is_empty() {
        let message = NetlinkMessage::<M>::deserialize(bytes)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        match message.payload {
            NetlinkPayload::InnerMessage(inner) => answers.push(inner),
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) if error.code.is_none() => return Ok(true),
            NetlinkPayload::Error(error) => return Err(Refusal::of(&error, message.header.flags)),
            _ => {}
        }
        // Messages are aligned to four bytes.
        let len = (message.header.length as usize).next_multiple_of(4).max(HEADER_LEN);
        bytes = bytes.get(len..).unwrap_or_default();
    }
    Ok(false)
}

/// A message whose content is bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawMessage {
    /// Its type, such as `RTM_NEWTFILTER`.
    pub kind: u16,
    /// Its content, after the message header.
    pub body: Vec<u8>,
}

impl NetlinkSerializable for RawMessage {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.body.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.body);
    }
}

impl NetlinkDeserializable for RawMessage {
    type Error = Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<RawMessage, Infallible> {
        Ok(RawMessage { kind: header.message_type, body: payload.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::NetlinkBuffer;
    use netlink_packet_route::RouteNetlinkMessage;
    use netlink_packet_route::link::{LinkAttribute, LinkMessage};

    use super::*;

    fn link_request(index: u32) -> RouteNetlinkMessage {
        let mut asked = LinkMessage::default();
        asked.header.index = index;
        RouteNetlinkMessage::GetLink(asked)
    }

    fn name(message: &RouteNetlinkMessage) -> Option<&str> {
        let RouteNetlinkMessage::NewLink(link) = message else { return None };
        link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name.as_str()),
            _ => None,
        })
    }

    #[test]
    fn a_request_has_its_answer_and_a_dump_all_of_them() {
        let netlink = Netlink::route().unwrap();
        let answers = netlink.request(link_request(1), 0).unwrap();
        assert_eq!(answers.iter().map(name).collect::<Vec<_>>(), [Some("lo")]);
        let all = netlink.dump(link_request(0)).unwrap();
        assert!(all.iter().any(|link| name(link) == Some("lo")), "{all:?}");
    }

    #[test]
    fn a_refusal_has_a_number_and_the_socket_can_be_used_again() {
        let netlink = Netlink::route().unwrap();
        let refusal = netlink.request(link_request(u32::MAX >> 1), 0).unwrap_err();
        assert_eq!(refusal.error.raw_os_error(), Some(libc::ENODEV));
        assert_eq!(netlink.request(link_request(1), 0).unwrap().len(), 1);
    }

    #[test]
    fn raw_messages_are_the_same_bytes_there_and_back() {
        let netlink = Netlink::route().unwrap();
        // RTM_GETLINK of interface 1 (struct ifinfomsg).
        let body = [[0; 4], 1_u32.to_ne_bytes(), [0; 4], [0; 4]].concat();
        let answers = netlink.request(RawMessage { kind: 18, body }, 0).unwrap();
        let [RawMessage { kind: 16, body }] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(body[4..8], 1_u32.to_ne_bytes());
    }

    /// An error message: flags, number, copy of the request, attributes.
    fn error(flags: u16, number: i32, copy_len: u32, rest: &[u8]) -> Result<bool, Refusal> {
        let mut copy = [0; HEADER_LEN];
        copy[..4].copy_from_slice(&copy_len.to_ne_bytes());
        let body = [&number.to_ne_bytes(), &copy[..], rest].concat();
        let len = (HEADER_LEN + body.len()) as u32;
        let bytes =
            [&len.to_ne_bytes()[..], &2_u16.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8], &body]
                .concat();
        collect::<RawMessage>(&bytes, &mut Vec::new())
    }

    #[test]
    fn the_kernels_words_are_found_behind_a_whole_and_a_cut_copy_of_the_request() {
        let words = [&9_u16.to_ne_bytes()[..], &1_u16.to_ne_bytes(), b"busy\0", &[0; 3]].concat();
        let whole = [&[7; 8], &words[..]].concat();
        for (flags, copy_len, rest) in
            [(NLM_F_ACK_TLVS, 24, &whole), (NLM_F_ACK_TLVS | NLM_F_CAPPED, 24, &words)]
        {
            let refusal = error(flags, -libc::EBUSY, copy_len, rest).unwrap_err();
            assert_eq!(refusal.words.as_deref(), Some("busy"));
            assert_eq!(refusal.to_string(), "busy (Device or resource busy (os error 16))");
        }
        for (flags, copy_len, rest) in [
            (0, 24, &whole[..]),
            // The copy claims to be longer than the message.
            (NLM_F_ACK_TLVS, u32::MAX, &whole),
            (NLM_F_ACK_TLVS, 24, &whole[..10]),
            (NLM_F_ACK_TLVS, 24, &[]),
        ] {
            assert_eq!(error(flags, -libc::EBUSY, copy_len, rest).unwrap_err().words, None);
        }
        assert!(error(0, 0, 16, &[]).unwrap(), "an acknowledgement");
    }

    #[test]
    fn a_datagram_that_is_cut_is_an_error_and_not_a_loop() {
        let netlink_bytes = [20_u32.to_ne_bytes(), [16, 0, 0, 0], [0; 4], [0; 4], [1; 4]].concat();
        assert!(NetlinkBuffer::new_checked(&netlink_bytes).is_ok());
        for len in 1..netlink_bytes.len() {
            let error = collect::<RawMessage>(&netlink_bytes[..len], &mut Vec::new()).unwrap_err();
            assert_eq!(error.error.kind(), io::ErrorKind::InvalidData, "{len} bytes");
        }
        let mut zero = netlink_bytes.clone();
        zero[..4].fill(0);
        assert!(collect::<RawMessage>(&zero, &mut Vec::new()).is_err());
    }
}
