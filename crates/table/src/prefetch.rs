//! The prefetch instruction, where there is one.
//!
//! One of the modules that may use `unsafe`: an intrinsic that takes a raw pointer.

#![allow(unsafe_code)]

/// Prefetches the cache line in which `place` begins.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    prefetch_at(place);
}

/// Prefetches the cache line at `address`; any address will do.
#[inline(always)]
pub(crate) fn prefetch_at<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    // SAFETY: a prefetch reads nothing the program can see and never faults; SSE is part of
    // x86-64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(any(loom, miri))))]
    // SAFETY: a prefetch reads nothing the program can see and never faults.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{address}]",
            address = in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(any(loom, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// Prefetches the cache line at `address` to write to it: a line that another core reads as well
/// comes without a second way to take it from there. Any address will do.
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    // SAFETY: a prefetch changes nothing the program can see and never faults; processors of
    // x86-64 without it take it for nothing. (The intrinsic asks to read unless built for more.)
    unsafe {
        std::arch::asm!(
            "prefetchw [{address}]",
            address = in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(all(target_arch = "aarch64", not(any(loom, miri))))]
    // SAFETY: a prefetch changes nothing the program can see and never faults.
    unsafe {
        std::arch::asm!(
            "prfm pstl1keep, [{address}]",
            address = in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(any(loom, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}
