//! Time stamps of frames: those that a card has (`ethtool -T`), and those that it is set to
//! (`linux/net_tstamp.h`).

use std::io;

use serde::{Deserialize, Serialize};

use super::layout::{Bytes, u32_at};
use super::{Card, is_unknown};

const GET_TS_INFO: u32 = 0x41;

/// Lengths of `ethtool_ts_info` and `hwtstamp_config`.
pub(super) const TS_INFO_LEN: usize = 44;
pub(super) const SETTING_LEN: usize = 12;

/// `SOF_TIMESTAMPING_TX_HARDWARE`, `_RX_HARDWARE` and `_RAW_HARDWARE`.
pub(super) const HARDWARE: u32 = 1 | 1 << 2 | 1 << 6;

/// `SOF_TIMESTAMPING_TX_SOFTWARE`.
const TX_SOFTWARE: u32 = 1 << 1;

/// `HWTSTAMP_TX_ON`.
const TX_ON: u32 = 1;

/// `HWTSTAMP_FILTER_ALL` and `HWTSTAMP_FILTER_PTP_V2_EVENT`.
const RX_ALL: u32 = 1;
const RX_PTP: u32 = 12;

/// The received frames that a card stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxFilter {
    /// All.
    All,
    /// Event messages of PTP version 2 (IEEE 1588) alone.
    Ptp,
}

/// Which frames a card can stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampAbility {
    flags: u32,
    tx_kinds: u32,
    rx_filters: u32,
}

impl StampAbility {
    pub(super) fn ask() -> Vec<u8> {
        Bytes::of(GET_TS_INFO, TS_INFO_LEN).0
    }

    pub(super) fn read(answer: &[u8]) -> StampAbility {
        StampAbility {
            flags: u32_at(answer, 4),
            tx_kinds: u32_at(answer, 12),
            rx_filters: u32_at(answer, 28),
        }
    }

    /// Whether the driver takes the kernel's time of frames that it sends.
    pub fn has_kernel_times(&self) -> bool {
        self.flags & TX_SOFTWARE != 0
    }

    /// The clocks that can stamp frames both ways, in words.
    pub fn words(&self) -> String {
        let by_card = self.frames().map(|frames| match frames {
            RxFilter::All => "card (all frames, both ways)",
            RxFilter::Ptp => "card (PTP frames alone, both ways)",
        });
        let by_kernel = self.has_kernel_times().then_some("kernel");
        let clocks: Vec<&str> = by_card.into_iter().chain(by_kernel).collect();
        if clocks.is_empty() { "none".to_owned() } else { clocks.join(", ") }
    }

    /// The received frames that it can stamp, where it stamps those that it sends, too.
    pub fn frames(&self) -> Option<RxFilter> {
        let both = self.flags & HARDWARE == HARDWARE && self.tx_kinds & 1 << TX_ON != 0;
        let has = |filter: u32| both && self.rx_filters & 1 << filter != 0;
        [(RX_ALL, RxFilter::All), (RX_PTP, RxFilter::Ptp)]
            .into_iter()
            .find_map(|(filter, frames)| has(filter).then_some(frames))
    }
}

/// Which frames a card is set to stamp (`struct hwtstamp_config`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampSetting {
    flags: u32,
    tx_kind: u32,
    rx_filter: u32,
}

impl StampSetting {
    /// The one that stamps such frames, and any that are sent.
    pub fn of(frames: RxFilter) -> StampSetting {
        let rx_filter = match frames {
            RxFilter::All => RX_ALL,
            RxFilter::Ptp => RX_PTP,
        };
        StampSetting { flags: 0, tx_kind: TX_ON, rx_filter }
    }

    /// Whether `other` stamps at least the same frames.
    pub fn is_part_of(self, other: StampSetting) -> bool {
        let receives = other.rx_filter == RX_ALL || other.rx_filter == self.rx_filter;
        other.tx_kind == self.tx_kind && receives
    }

    pub(super) fn bytes(self) -> Vec<u8> {
        Bytes::of(self.flags, SETTING_LEN).u32(4, self.tx_kind).u32(8, self.rx_filter).0
    }

    pub(super) fn read(answer: &[u8]) -> StampSetting {
        let [flags, tx_kind, rx_filter] = [0, 4, 8].map(|at| u32_at(answer, at));
        StampSetting { flags, tx_kind, rx_filter }
    }
}

impl Card {
    /// Reads which frames the card can stamp; a driver that does not know this stamps none.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn stamp_ability(&mut self) -> io::Result<StampAbility> {
        let ability = self.if_known(&StampAbility::ask(), TS_INFO_LEN, StampAbility::read)?;
        Ok(ability.unwrap_or_default())
    }

    /// Reads which frames the card is set to stamp; `None` where the driver does not tell.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn stamp_setting(&mut self) -> io::Result<Option<StampSetting>> {
        match self.caller.stamp_setting(&StampSetting::default().bytes(), false) {
            Err(e) if is_unknown(&e) => Ok(None),
            answer => answer.map(|answer| Some(StampSetting::read(answer))),
        }
    }

    /// Sets what it stamps; the driver may choose a setting that stamps more, which this returns.
    ///
    /// # Errors
    /// Those of the kernel; `ERANGE` where the card has no such setting.
    pub fn set_stamps(&mut self, setting: StampSetting) -> io::Result<StampSetting> {
        Ok(StampSetting::read(self.caller.stamp_setting(&setting.bytes(), true)?))
    }
}
