//! How clients come in, what is refused at the door, and how they sleep and are woken.

use std::fs;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::time::Instant;

use niclab_port::Burst;
use niclab_port::error::PortError;
use niclab_port::external_queue::{HEADER_LEN, Listener, MAGIC, VERSION};
use niclab_port::queue_pair::QueuePair;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown,
    SocketAddrUnix, SocketType, accept, bind, listen, recv, sendmsg, shutdown, socket,
};
use tempfile::tempdir;

use crate::card::{Card, SMALL, bytes, until};
use crate::peer::{has_message, knock};
use crate::reply::Reply;

#[test]
fn the_socket_of_a_killed_card_makes_room_and_nothing_else_does() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("queue");
    let refused = || Listener::bind(&path, SMALL).err().unwrap();
    // A socket that nobody listens at any more.
    drop(UnixListener::bind(&path).unwrap());
    let mut listener = Listener::bind(&path, SMALL).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    // Who looks whether the place is free is no client.
    assert!(matches!(refused(), PortError::ExternalQueueTaken { .. }));
    let card = Card::new(SMALL);
    let client = knock(&path);
    assert!(listener.accept(&card.region).unwrap().is_none());
    assert!(has_message(&client), "it is the first to come");
    drop(listener);
    assert!(!path.exists(), "it takes its file with it");
    let stream = UnixListener::bind(&path).unwrap();
    assert!(matches!(refused(), PortError::ExternalQueueTaken { .. }), "somebody else's");
    drop(stream);
    let first = Listener::bind(&path, SMALL).unwrap();
    fs::remove_file(&path).unwrap();
    let second = Listener::bind(&path, SMALL).unwrap();
    drop(first);
    assert!(path.exists(), "not its own any more");
    drop(second);
    fs::write(&path, "precious").unwrap();
    assert!(matches!(refused(), PortError::ExternalQueuePath { .. }));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    let nowhere = directory.path().join("no/where");
    assert!(matches!(Listener::bind(&nowhere, SMALL), Err(PortError::File { .. })));
    let long = directory.path().join("x".repeat(108));
    assert!(matches!(Listener::bind(&long, SMALL), Err(PortError::File { .. })));
    card.end([]);
}

#[test]
fn a_client_waits_until_the_one_before_is_gone() {
    let mut card = Card::new(SMALL);
    assert!(card.listener.accept(&card.region).unwrap().is_none());
    // One leaves before it is let in, one has not mapped its memory and then leaves.
    drop(knock(&card.path()));
    let slow = knock(&card.path());
    until("the layout", || {
        assert!(card.listener.accept(&card.region).unwrap().is_none());
        has_message(&slow).then_some(())
    });
    let behind = knock(&card.path());
    for _ in 0..100 {
        assert!(card.listener.accept(&card.region).unwrap().is_none());
    }
    assert!(!has_message(&behind));
    drop((slow, behind));
    let (mut queue_pair, peer) = card.peer();
    let next = knock(&card.path());
    // It says goodbye, and keeps the socket.
    shutdown(&peer.socket, Shutdown::Write).unwrap();
    let mut burst = Burst::new();
    let ended = (0..1_024).find_map(|_| queue_pair.send(&mut card.pools[0], &mut burst).err());
    assert_eq!(ended.unwrap().to_string(), "the client is gone", "within so many calls");
    let (mut second, next) = card.enter(next);
    next.lend(0..1);
    card.send(&mut second, [&bytes(3, 60)[..]]);
    assert_eq!(next.received(), [(0, bytes(3, 60))]);
    assert!(peer.all().iter().all(|byte| *byte == 0), "the first has another memory");
    card.end([queue_pair, second]);
}

#[test]
fn a_client_that_does_not_come_in_is_let_go_for_the_next() {
    let mut card = Card::new(SMALL);
    let slow = knock(&card.path());
    until("the layout", || {
        assert!(card.listener.accept(&card.region).unwrap().is_none());
        has_message(&slow).then_some(())
    });
    recv(&slow, &mut [0; 400], RecvFlags::empty()).unwrap();
    let (begun, next) = (Instant::now(), knock(&card.path()));
    let (queue_pair, _peer) = card.enter(next);
    let waited = begun.elapsed();
    assert!((4..9).contains(&waited.as_secs()), "{waited:?}");
    let mut why = [0; 100];
    let (len, _) = recv(&slow, &mut why, RecvFlags::DONTWAIT).unwrap();
    assert_eq!(why[..len], *b"enot mapped within 5 seconds");
    let (end, _) = recv(&slow, &mut why, RecvFlags::DONTWAIT).unwrap();
    assert_eq!(end, 0, "the card has closed it");
    card.end([queue_pair]);
}

#[test]
fn a_client_that_sleeps_is_woken_once_by_frames_and_by_slots_that_come_back() {
    let mut card = Card::new(SMALL);
    let (mut queue_pair, peer) = card.peer();
    peer.lend(0..8);
    let frame = bytes(1, 60);
    card.send(&mut queue_pair, [&frame[..]]);
    assert_eq!(peer.message(), None, "it is awake");
    peer.set_index(peer.layout.asleep_at, 1);
    card.send(&mut queue_pair, [&frame[..]; 8]);
    card.send(&mut queue_pair, [&frame[..]; 3]);
    assert_eq!((peer.message(), peer.message()), (Some(b"w".to_vec()), None));
    assert_eq!(peer.index(peer.layout.asleep_at), 0);
    peer.set_index(peer.layout.asleep_at, 7);
    card.send(&mut queue_pair, [&frame[..]; 3]);
    assert!(card.receive(&mut queue_pair).is_empty());
    assert_eq!(peer.message(), None, "no message: it has offered no slot");
    peer.put(peer.layout.transmit, &[peer.write(20, 0, &frame)]);
    assert_eq!(card.receive(&mut queue_pair), [&frame[..]]);
    assert_eq!((peer.message(), peer.message()), (Some(b"w".to_vec()), None));
    // One that says so again and again and never reads: the card does not wait for it.
    for _ in 0..2_000 {
        peer.set_index(peer.layout.asleep_at, 1);
        peer.take::<2>(peer.layout.receive);
        peer.lend(0..1);
        card.send(&mut queue_pair, [&frame[..]]);
    }
    assert_eq!(queue_pair.counters().tx_frames, 2_008);
    // It is asleep as long as no message goes, and woken once it has read.
    assert_eq!(peer.index(peer.layout.asleep_at), 1);
    let read = std::iter::from_fn(|| peer.message()).count();
    assert!(read > 10 && read < 2_000, "{read}");
    peer.lend(0..1);
    card.send(&mut queue_pair, [&frame[..]]);
    assert_eq!((peer.message(), peer.message()), (Some(b"w".to_vec()), None));
    assert_eq!(peer.index(peer.layout.asleep_at), 0);
    card.end([queue_pair]);
}

#[test]
fn a_program_that_knows_another_layout_says_so_and_leaves() {
    let directory = tempdir().unwrap();
    let name = "a_program_that_knows_another_layout_says_so_and_leaves";
    let Some(reply) = Reply::new(name, directory.path()) else { return };
    let path = directory.path().join("other");
    let listener = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&listener, 1).unwrap();
    for (magic, version) in [(MAGIC, VERSION + 1), (*b"NICLAB??", VERSION)] {
        let running = reply.start(&path);
        let card = accept(&listener).unwrap();
        let mut header = [0; HEADER_LEN + 8];
        header[..8].copy_from_slice(&magic);
        header[8..12].copy_from_slice(&version.to_ne_bytes());
        let file = fs::File::open("/dev/null").unwrap();
        let files = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        beside.push(SendAncillaryMessage::ScmRights(&files));
        sendmsg(&card, &[IoSlice::new(&header)], &mut beside, SendFlags::empty()).unwrap();
        let message = format!("a card of layout {version}, and we know {VERSION}\n");
        assert_eq!(running.end(), (Some(3), message));
    }
}

#[test]
fn no_wake_up_is_lost() {
    let mut card = Card::new(SMALL);
    let Some(reply) = Reply::new("no_wake_up_is_lost", card.directory.path()) else { return };
    let running = reply.start(&card.path());
    let mut queue_pair = card.queue();
    running.until_asleep();
    // One frame at a time: the client goes to sleep as the next one comes.
    for number in 0..30_000 {
        card.send(&mut queue_pair, [&bytes(number, 60)[..]]);
        until("an answer", || card.receive(&mut queue_pair).pop());
    }
    assert_eq!((queue_pair.counters().rx_frames, queue_pair.counters().tx_dropped), (30_000, 0));
    card.end([queue_pair]);
    assert_eq!(running.end(), (Some(0), "30000 frames\n".to_owned()));
}
