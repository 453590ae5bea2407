//! The built command, as a user meets it: what it prints, how it ends, what it leaves behind.
//!
//! Every test starts the program that was built. Those that measure hold `command::cores()`: two
//! measurements at a time would take each other's cores away.
#![forbid(unsafe_code)]

mod analytics;
mod analytics_send;
mod baseline;
mod cases;
mod changing;
mod command;
mod compare;
mod conform;
mod crowded;
mod directories;
#[path = "../dpdk/driver.rs"]
mod driver;
mod echo;
mod fleet;
mod foreign;
mod ids;
mod ids_run;
mod interrupted;
mod json;
mod killed;
mod kvs;
mod listed;
mod machine;
mod many_hosts;
mod measured;
mod merge;
mod metrics;
mod nic;
mod pages;
mod planning;
mod profiles;
mod programs;
mod queues;
mod reference;
mod refused;
mod remote;
mod rules;
mod services;
mod socket;
mod ssh_host;
mod stores;
mod top;
mod trouble;
mod tune;
mod tutorial;
mod two_hosts;
mod variants;
mod words;
