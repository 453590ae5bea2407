//! Meters.
#![allow(non_camel_case_types)]

use niclab_nic::Meter;

use super::types::niclab_error;
use super::{Device, call, given};

/// A meter to create. Rates are bytes a second, sizes are bytes; the length of a packet has the
/// frame check sequence. Green and yellow packets pass, red ones are dropped.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct niclab_meter {
    /// 0: one rate (RFC 2697); 1: two rates (RFC 2698).
    pub has_two_rates: u32,
    /// Committed information rate.
    pub cir: u64,
    /// Peak information rate, of two rates.
    pub pir: u64,
    /// Committed burst size.
    pub cbs: u64,
    /// Excess burst size, or peak burst size.
    pub ebs: u64,
}

/// Creates a meter with full buckets, which rules can name.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_meter_create(
    nic: *const Device,
    number: u32,
    meter: *const niclab_meter,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        call(nic, error, |control| {
            let niclab_meter { has_two_rates, cir, pir, cbs, ebs } = *given(meter, "meter")?;
            let meter = match has_two_rates {
                0 => Meter::SingleRate { cir_bytes_per_s: cir, cbs_bytes: cbs, ebs_bytes: ebs },
                _ => Meter::TwoRate {
                    cir_bytes_per_s: cir,
                    pir_bytes_per_s: pir,
                    cbs_bytes: cbs,
                    pbs_bytes: ebs,
                },
            };
            Ok(control.nic.create_meter(number, &meter)?)
        })
    }
}

/// Destroys a meter that no rule names.
///
/// # Safety
/// `nic` is open, and `error` is valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_meter_destroy(
    nic: *const Device,
    number: u32,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe { call(nic, error, |control| Ok(control.nic.destroy_meter(number)?)) }
}
