//! The time of a frame in the groups of a card, computed from a profile.

use crate::profile::Profile;
use crate::schema::INJECTED;
use crate::{UnknownNumber, needed};

/// The classifier of a card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Classifier {
    /// The costs of group 0; `None` if unknown: without a rule there, the port is the limit.
    root: Option<Root>,
    cliff: Option<f64>,
    /// Time, rules near, time a million rules.
    table: Option<(f64, f64, f64)>,
}

/// The time of a frame in group 0, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Root {
    frame_ns: f64,
    rule_ns: f64,
    /// Rules that fit the near memory.
    near: f64,
    far_ns: f64,
}

impl Root {
    /// # Errors
    /// [`UnknownNumber`] where a part of it alone is known.
    fn of(profile: &Profile) -> Result<Option<Root>, UnknownNumber> {
        let number = |key| needed(profile, "root", key);
        let keys = ["frame_ns", "rule_ps", "near_rules", "far_ns"];
        if keys.iter().all(|key| profile.number("root", key).is_none()) {
            return Ok(None);
        }
        Ok(Some(Root {
            frame_ns: number("frame_ns")?,
            rule_ns: number("rule_ps")? / 1e3,
            near: number("near_rules")?,
            far_ns: number("far_ns")?,
        }))
    }
}

impl Classifier {
    /// That of a profile.
    ///
    /// # Errors
    /// [`UnknownNumber`] where only a part of the numbers of group 0 is known.
    pub fn of(profile: &Profile) -> Result<Classifier, UnknownNumber> {
        let table = |key| profile.number("groups", key);
        Ok(Classifier {
            root: Root::of(profile)?,
            cliff: profile.number(INJECTED, "cliff_rules"),
            table: table("table_ns")
                .zip(table("near_rules"))
                .zip(table("chain_ns"))
                .map(|((table, near), chain)| (table, near, chain)),
        })
    }

    /// Time in group 0 with so many rules, nanoseconds. Rules beyond the near memory are gone
    /// through for each frame.
    ///
    /// # Errors
    /// [`UnknownNumber`] where there are rules, and what they cost is unknown.
    pub fn root_ns(&self, rules: f64) -> Result<f64, UnknownNumber> {
        let root = match self.root {
            Some(root) => root,
            None if rules > 0.0 => {
                return Err(UnknownNumber { section: "root", key: "frame_ns" });
            }
            None => return Ok(0.0),
        };
        let far = (rules - root.near).max(0.0);
        let time = root.frame_ns + root.rule_ns * rules + root.far_ns * far;
        Ok(match self.cliff {
            Some(cliff) if rules > cliff => 10.0 * time,
            _ => time,
        })
    }

    /// Time in another group with so many rules, nanoseconds. Its tables grow with its rules; few
    /// of them stay in the classifier's caches.
    ///
    /// # Errors
    /// [`UnknownNumber`] where it is unknown.
    pub fn group_ns(&self, rules: f64) -> Result<f64, UnknownNumber> {
        let unknown = UnknownNumber { section: "groups", key: "table_ns" };
        let (table, near, chain) = self.table.ok_or(unknown)?;
        Ok(table * (1.0 - (-rules / near).exp()) + chain * rules / 1e6)
    }
}
