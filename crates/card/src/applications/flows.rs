//! Assigns frames to applications. Each application has its flows at its ports, in a classifier of
//! rules that comes before all programs. The queue of a frame names its application.

use niclab_nic::rule::session::Session;
use niclab_nic::rule::text::ReadError;
use niclab_nic::{Nic, NicConfig, NicError};

use super::{Application, ApplicationError};

/// A classifier for each port, none where there are no applications.
pub(super) fn dispatch(applications: usize, ports: usize) -> Result<Vec<Nic>, NicError> {
    let config = NicConfig { queues: applications as u16, ports: 1, ..NicConfig::default() };
    match applications {
        0 => Ok(Vec::new()),
        _ => (0..ports).map(|_| Nic::new(&config)).collect(),
    }
}

/// Gives an application its flows at a port.
pub(super) fn claim(
    nic: &mut Nic,
    of: &Application,
    (number, port): (usize, u16),
    claimed: &mut Vec<(usize, u16, String)>,
) -> Result<(), ApplicationError> {
    let mut session = Session::new(0);
    for flow in &of.flows {
        let refused = |reason: String| {
            let (name, flow) = (of.name.clone(), flow.clone());
            ApplicationError::Flow { name, flow, reason }
        };
        if flow.contains(['\n', '\r']) || flow.contains(" actions ") {
            return Err(refused("give a pattern alone".to_owned()));
        }
        let pattern = flow.trim().trim_end_matches("end").trim_end().trim_end_matches('/').trim();
        let words = pattern.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_it = |(owner, at, other): &(usize, u16, String)| {
            *owner != number && *at == port && *other == words
        };
        if claimed.iter().any(is_it) {
            return Err(refused("another application has it".to_owned()));
        }
        claimed.push((number, port, words));
        let rule = format!(
            "flow create 0 priority {number} ingress pattern {pattern} / end \
             actions queue index {number} / end\n"
        );
        // Reports what is wrong with the rule that was made of it, and not the words of that rule.
        session.apply(nic, rule.as_bytes()).map_err(|error| match error {
            ReadError::Text(error) => refused(error.problem().to_string()),
            error => refused(error.to_string()),
        })?;
    }
    Ok(())
}
