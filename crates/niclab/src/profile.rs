//! `niclab profile`: profiles of modelled cards.

use std::io::Write;
use std::path::Path;

use niclab_device::model::profile::{Entry, Part, Profile};
use niclab_device::model::schema::SECTIONS;
use niclab_device::model::{self, UnreadProfile};
use niclab_lab::fit::echoes::ECHOING;
use niclab_lab::fit::{FitError, fitted, of_results};
use niclab_lab::reference::REFERENCE;
use niclab_lab::validation;

use crate::failure::Failure;
use crate::files;
use crate::output::stdout;
use crate::rules::plural;
use crate::stored;

/// The prefix of a published card, which `fit` accepts in place of a result directory.
const PUBLISHED: &str = "published:";

/// Reads each profile and says what is known of the card.
pub fn check(profiles: &[String]) -> Result<(), Failure> {
    let mut out = stdout();
    for name in profiles {
        let profile = model::read(name)?;
        let numbers = profile.sections().filter_map(|(_, part)| match part {
            Part::Known(keys) => Some(keys),
            Part::Lacking | Part::Unknown => None,
        });
        let is_known = |(_, entry): &&(_, Entry)| *entry != Entry::Unknown;
        let known = numbers.flatten().filter(is_known).count();
        let unknown = profile.unknown();
        write!(out, "{name}: {}: {}", profile.title, plural(known, "number", "numbers"))?;
        match unknown.as_slice() {
            [] => writeln!(out)?,
            unknown => writeln!(out, "; unknown: {}", unknown.join(", "))?,
        }
    }
    Ok(())
}

/// Lists all sections and keys.
pub fn keys() -> Result<(), Failure> {
    let mut out = stdout();
    for section in SECTIONS {
        let none = if section.may_lack { "; may be \"none\"" } else { "" };
        writeln!(out, "[{}]  {}{none}", section.name, section.text)?;
        for key in section.keys {
            let range = format!("{} to {}", key.least, key.most);
            writeln!(out, "  {:<16} {:<9} {:<22} {}", key.name, key.unit, range, key.text)?;
        }
    }
    Ok(())
}

/// Prints a profile as it is written.
pub fn show(name: &str) -> Result<(), Failure> {
    let (_, text) = model::text(name).map_err(UnreadProfile::Absent)?;
    Ok(stdout().write_all(text.as_bytes())?)
}

/// Fits a profile to result directories or a published card, and prints it, or writes it to a new
/// file.
pub fn fit(from: &[String], device: Option<&str>, output: Option<&Path>) -> Result<(), Failure> {
    output.map_or(Ok(()), files::check_new)?;
    let published = match from {
        [one] => one.strip_prefix(PUBLISHED),
        _ => None,
    };
    let profile = match published {
        Some(card) => match ECHOING.iter().find(|one| one.profile == card) {
            Some(one) => one.fitted(),
            None => fitted(card.parse()?),
        },
        None => measured(from, device)?,
    };
    match output {
        Some(path) => files::write_new(path, &profile.text()),
        None => Ok(stdout().write_all(profile.text().as_bytes())?),
    }
}

fn measured(directories: &[String], device: Option<&str>) -> Result<Profile, Failure> {
    let mut samples = Vec::new();
    for directory in directories {
        samples.extend(stored::open(Path::new(directory))?.samples);
    }
    let mut devices: Vec<&str> = samples.iter().map(|one| one.device.as_str()).collect();
    devices.sort_unstable();
    devices.dedup();
    // It shows how steady the machine was, and is no card.
    devices.retain(|device| *device != REFERENCE);
    let (source, there) = (directories.join(", "), devices.join(", "));
    let no_fit = |device: &str, reason: String| FitError { device: device.to_owned(), reason };
    let name = match (device, devices.as_slice()) {
        (Some(name), _) if devices.contains(&name) => name,
        (Some(name), _) => {
            return Err(no_fit(name, format!("not in {source}; there are {there}")).into());
        }
        (None, [one]) => one,
        (None, _) => {
            let reason = format!("say which with --device; there are {there}");
            return Err(no_fit(&source, reason).into());
        }
    };
    Ok(of_results(name, &source, &samples)?)
}

/// Compares the modelled cards with what was published of them.
pub fn validate() -> Result<(), Failure> {
    let page = validation::page(&validation::validate()?, &validation::echoes::validate()?);
    Ok(stdout().write_all(page.as_bytes())?)
}
