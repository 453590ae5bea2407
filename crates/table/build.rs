//! Makes `cfg(loom)`, under which the models are checked, known to the compiler.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(loom)");
}
