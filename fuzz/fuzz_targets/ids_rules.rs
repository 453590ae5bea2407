//! Any text is rules of Suricata or is refused at a place in it; what is read can be divided, and a
//! rule that is written again is read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use niclab_ids::partition::{Partition, Traffic};
use niclab_ids::rule::read;
use niclab_ids::{Variables, flow_of};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut variables = Variables::default();
    variables.define_addresses("HOME_NET", "[10.0.0.0/8,!10.1.0.0/16,fc00::/7]");
    variables.define_ports("HTTP_PORTS", "[80,8000:8100]");
    match read(text, &variables) {
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                assert!(error.line() >= 1 && error.column() >= 1 && !error.to_string().is_empty());
            }
        }
        Ok(rules) => {
            let lines: String = rules.iter().map(|rule| rule.text.clone() + "\n").collect();
            let again = read(&lines, &variables).unwrap_or_else(|errors| panic!("{}", errors[0]));
            assert_eq!(again.len(), rules.len());
            let Ok(partition) = Partition::new(&rules, &Traffic::default(), 3) else { return };
            let route = flow_of(data).map_or(partition.route_of_others(), |flow| {
                partition.route(&flow)
            });
            assert!(route.cores >> route.reporter & 1 == 1 && route.cores < 8);
        }
    }
});
