//! Published answers, properties, and every path against the definition.

use proptest::prelude::*;

use super::*;

/// A row of the verification suite: source and destination address and port, and the hashes of
/// the addresses alone and with the ports.
type Known = (&'static str, u16, &'static str, u16, u32, u32);

/// Microsoft, "Verifying the RSS Hash Calculation", both tables, all rows:
/// <https://learn.microsoft.com/windows-hardware/drivers/network/verifying-the-rss-hash-calculation>
#[rustfmt::skip]
const KNOWN: [Known; 8] = [
    ("66.9.149.187", 2794, "161.142.100.80", 1766, 0x323e8fc2, 0x51ccc178),
    ("199.92.111.2", 14230, "65.69.140.83", 4739, 0xd718262a, 0xc626b0ea),
    ("24.19.198.95", 12898, "12.22.207.184", 38024, 0xd2d0a5de, 0x5c2b394a),
    ("38.27.205.30", 48228, "209.142.163.6", 2217, 0x82989176, 0xafc7327f),
    ("153.39.163.191", 44251, "202.188.127.2", 1303, 0x5d1809c5, 0x10e828a2),
    ("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x2cc18cd5, 0x40207d3d),
    ("3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739, 0x0f0c461c, 0xdde51bbf),
    ("3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251, "fe80::200:f8ff:fe21:67cf", 38024,
        0x4b61e985, 0x02d1feef),
];

fn address(text: &str) -> Vec<u8> {
    match text.parse().unwrap() {
        std::net::IpAddr::V4(address) => address.octets().to_vec(),
        std::net::IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The definition, bit by bit, as the specification states it.
fn definition(key: &[u8], input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
    let window = |at: usize| (at..at + 32).fold(0, |acc, at| acc << 1 | u32::from(bit(key, at)));
    (0..8 * input.len()).filter(|&at| bit(input, at) == 1).fold(0, |acc, at| acc ^ window(at))
}

fn available() -> impl Iterator<Item = HashPath> {
    HashPath::ALL.into_iter().filter(|path| path.is_available())
}

/// Hashes `input`, which has `N` bytes, as every tuple of a burst.
fn bulk_of_same<const N: usize>(toeplitz: &Toeplitz, input: &[u8]) -> u32 {
    let mut out = [0; 17];
    toeplitz.hash_bulk::<N>(&[input.try_into().unwrap(); 17], &mut out);
    assert_eq!(out, [out[0]; 17]);
    out[0]
}

fn bulk(toeplitz: &Toeplitz, input: &[u8]) -> u32 {
    match input.len() {
        8 => bulk_of_same::<8>(toeplitz, input),
        12 => bulk_of_same::<12>(toeplitz, input),
        32 => bulk_of_same::<32>(toeplitz, input),
        36 => bulk_of_same::<36>(toeplitz, input),
        len => panic!("no tuple of {len} bytes"),
    }
}

#[test]
fn published_answers() {
    for path in available() {
        let toeplitz = Toeplitz::with_path(&MICROSOFT_KEY, path).unwrap();
        for (src, src_port, dst, dst_port, of_addresses, of_ports) in KNOWN {
            let pair = [address(src), address(dst)].concat();
            let ports = [src_port.to_be_bytes(), dst_port.to_be_bytes()].concat();
            let all = [pair.clone(), ports].concat();
            for (input, expected) in [(&pair, of_addresses), (&all, of_ports)] {
                assert_eq!(definition(&MICROSOFT_KEY, input), expected, "{src} {dst}");
                assert_eq!(toeplitz.hash(input), expected, "{src} {dst}");
                assert_eq!(bulk(&toeplitz, input), expected, "{path}: {src} {dst}");
            }
        }
    }
}

#[test]
fn symmetric_key_joins_directions() {
    let toeplitz = Toeplitz::new(&SYMMETRIC_KEY).unwrap();
    for (src, src_port, dst, dst_port, ..) in KNOWN {
        let [src, dst] = [address(src), address(dst)];
        let [src_port, dst_port] = [src_port.to_be_bytes(), dst_port.to_be_bytes()];
        let there = [&src[..], &dst, &src_port, &dst_port].concat();
        let back = [&dst[..], &src, &dst_port, &src_port].concat();
        assert_eq!(toeplitz.hash(&there), toeplitz.hash(&back));
        assert_ne!(toeplitz.hash(&there), 0);
    }
}

#[test]
fn the_default_key_does_not_join_directions() {
    let toeplitz = Toeplitz::new(&MICROSOFT_KEY).unwrap();
    let there = [66, 9, 149, 187, 161, 142, 100, 80];
    let back = [161, 142, 100, 80, 66, 9, 149, 187];
    assert_ne!(toeplitz.hash(&there), toeplitz.hash(&back));
}

#[test]
fn key_lengths() {
    for len in [0, 4, 39, 129] {
        let error = Toeplitz::new(&vec![1; len]).unwrap_err();
        assert_eq!(error, ToeplitzError::KeyLength { len });
        assert!(error.to_string().contains(&format!("{len} bytes cannot be used")), "{error}");
    }
    for len in [40, 41, 52, 128] {
        assert_eq!(Toeplitz::new(&vec![1; len]).unwrap().input_len_max(), len - 4);
    }
}

#[test]
fn a_path_of_another_processor_is_refused() {
    let foreign = if cfg!(target_arch = "aarch64") { HashPath::Avx2 } else { HashPath::Neon };
    let error = Toeplitz::with_path(&MICROSOFT_KEY, foreign).unwrap_err();
    assert_eq!(error, ToeplitzError::PathUnavailable { path: foreign });
    assert!(HashPath::best().is_available());
}

#[test]
#[should_panic(expected = "one hash per tuple")]
fn hashes_and_tuples_must_match() {
    Toeplitz::new(&MICROSOFT_KEY).unwrap().hash_bulk(&[[0; 12]; 16], &mut [0; 17]);
}

#[test]
#[should_panic(expected = "the key does not reach 40 bytes")]
fn tuples_past_the_key_are_refused() {
    Toeplitz::new(&MICROSOFT_KEY).unwrap().hash_bulk(&[[0; 40]; 16], &mut [0; 16]);
}

/// Holds every path to the definition for `count` tuples of `N` bytes, cut from `bytes` so that
/// they start at any alignment and nothing lies behind them.
fn check<const N: usize>(key: &[u8], bytes: &[u8], count: usize) {
    let bytes: Box<[u8]> = bytes[bytes.len() - N * count..].into();
    let (tuples, _) = bytes.as_chunks::<N>();
    let expected: Vec<u32> = tuples.iter().map(|tuple| definition(key, tuple)).collect();
    for path in available() {
        let toeplitz = Toeplitz::with_path(key, path).unwrap();
        let mut out = vec![0xdead_beef; count];
        toeplitz.hash_bulk(tuples, &mut out);
        assert_eq!(out, expected, "{path}: {count} tuples of {N} bytes");
        let single: Vec<u32> = tuples.iter().map(|tuple| toeplitz.hash(tuple)).collect();
        assert_eq!(single, expected, "{path}: single tuples of {N} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn paths_agree(
        key in prop::collection::vec(any::<u8>(), 44..=60),
        bytes in prop::collection::vec(any::<u8>(), 200 * 40),
        count in 0_usize..=200,
    ) {
        check::<1>(&key, &bytes, count);
        check::<3>(&key, &bytes, count);
        check::<4>(&key, &bytes, count);
        check::<8>(&key, &bytes, count);
        check::<12>(&key, &bytes, count);
        check::<13>(&key, &bytes, count);
        check::<16>(&key, &bytes, count);
        check::<20>(&key, &bytes, count);
        check::<24>(&key, &bytes, count);
        check::<28>(&key, &bytes, count);
        check::<32>(&key, &bytes, count);
        check::<36>(&key, &bytes, count);
        check::<40>(&key, &bytes, count);
    }

    #[test]
    fn single_inputs_of_any_length(
        key in prop::collection::vec(any::<u8>(), KEY_LEN_MIN..=KEY_LEN_MAX),
        input in prop::collection::vec(any::<u8>(), KEY_LEN_MAX),
        len in 0_usize..=KEY_LEN_MAX,
    ) {
        let toeplitz = Toeplitz::new(&key).unwrap();
        let input = &input[..len.min(toeplitz.input_len_max())];
        prop_assert_eq!(toeplitz.hash(input), definition(&key, input));
    }

    #[test]
    fn symmetric_key_swaps_any_even_distance(
        input in prop::collection::vec(any::<u8>(), 36),
        first in 0_usize..36,
        second in 0_usize..36,
    ) {
        let toeplitz = Toeplitz::new(&SYMMETRIC_KEY).unwrap();
        let mut swapped = input.clone();
        swapped.swap(first, second & !1 | first & 1);
        prop_assert_eq!(toeplitz.hash(&input), toeplitz.hash(&swapped));
    }
}
