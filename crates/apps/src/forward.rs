//! Minimal forwarding: swap the MAC addresses, send the frame back where it came from.

/// Swaps destination and source address of an Ethernet frame; a shorter frame is left alone.
#[inline]
pub fn swap_macs(frame: &mut [u8]) {
    if let Some(head) = frame.first_chunk_mut::<12>() {
        let (dst, src) = head.split_at_mut(6);
        dst.swap_with_slice(src);
    }
}

#[cfg(test)]
mod tests {
    use super::swap_macs;

    #[test]
    fn addresses_change_places_and_nothing_else_changes() {
        let mut frame: Vec<u8> = (0..60).collect();
        swap_macs(&mut frame);
        assert_eq!(frame[..12], [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5]);
        assert_eq!(frame[12..], (12..60).collect::<Vec<u8>>());
        let mut short = [1, 2, 3];
        swap_macs(&mut short);
        assert_eq!(short, [1, 2, 3]);
    }
}
