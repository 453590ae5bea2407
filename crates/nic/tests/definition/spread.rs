//! Random states of RSS, and actions.

use niclab_nic::rss::{HashFunction, HashTypes, Rss, RssAction, RssLevel, evenly};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::QUEUES;

/// A state of RSS with any key, and tables that name any queues.
pub fn rss() -> impl Strategy<Value = Rss> {
    let functions = select(vec![HashFunction::Toeplitz, HashFunction::SymmetricToeplitz]);
    let key = select(vec![40, 52]).prop_flat_map(|len| prop::collection::vec(any::<u8>(), len));
    let queues = prop::collection::vec(0..QUEUES, 1..9);
    (functions, queues, key, types(), any::<bool>()).prop_map(
        |(function, queues, key, types, inner)| {
            let indirection = evenly(queues);
            let level = if inner { RssLevel::Inner } else { RssLevel::Outermost };
            Rss { function, indirection, key, level, types }
        },
    )
}

/// What a rule does with its packets; often the same, so that rules share a context.
pub fn action() -> impl Strategy<Value = RssAction> {
    let action = |rss: Rss, has: u8, count: usize| {
        let queues = rss.indirection[..count].to_vec();
        RssAction {
            function: (has & 1 == 1).then_some(rss.function),
            key: (has & 2 == 2).then_some(rss.key),
            level: (has & 8 == 8).then_some(rss.level),
            queues,
            types: (has & 4 == 4).then_some(rss.types),
        }
    };
    prop_oneof![
        1 => Just(RssAction { queues: vec![1, 2], ..RssAction::default() }),
        2 => (rss(), 0..16u8, 0..5usize).prop_map(move |(rss, has, count)| action(rss, has, count)),
    ]
}

/// Some types, most of the time those that name many packets among them.
fn types() -> impl Strategy<Value = HashTypes> {
    let join = |names: Vec<HashTypes>| names.into_iter().fold(HashTypes::NONE, |all, it| all | it);
    let any = HashTypes::NAMES.map(|(_, types)| types).to_vec();
    let wide = vec![HashTypes::IP, HashTypes::TCP, HashTypes::UDP, HashTypes::SCTP];
    let wide = subsequence(wide, 2..=4).prop_map(join);
    let only = vec![
        HashTypes::L3_SRC_ONLY,
        HashTypes::L3_DST_ONLY,
        HashTypes::L4_SRC_ONLY,
        HashTypes::L4_DST_ONLY,
    ];
    let only = subsequence(only, 0..=2).prop_map(join);
    prop_oneof![
        1 => subsequence(any, 0..6).prop_map(join),
        2 => (wide, only).prop_map(|(wide, only)| wide | only),
    ]
}
