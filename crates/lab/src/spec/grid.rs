//! A grid: one set of places to measure, and how thoroughly.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{InvalidValue, Overrides, SpecError};
use crate::run::Resolver;
use crate::values::Values;

/// Which grid of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GridName {
    /// Half a minute: a run without names, which has those experiments that have such a grid.
    Short,
    /// Minutes: an experiment that is asked for by name, and all of them.
    #[default]
    Reduced,
    /// `--full`: an hour or so.
    Full,
    /// `--grid published`: as long as it takes.
    Published,
}

/// One set of places to measure, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Grid {
    /// How often each trial is repeated.
    pub repeats: u32,
    /// Fewest repeats that are left where more do not fit the budget, at least 1.
    pub repeats_min: u32,
    /// Measured part of a trial.
    pub duration_ms: u64,
    /// Part before it, never counted.
    pub warmup_ms: u64,
    /// Longest time it should take in all, seconds: repeats are taken back down to `repeats_min`,
    /// then durations halved, until it fits. Without it there is no limit.
    pub budget_s: Option<u64>,
    /// The sweeps of its experiment.
    pub(crate) sweeps: Box<dyn Sweeps>,
}

/// The sweeps of a grid: lists, each sweep a full product of its axes.
pub(crate) trait Sweeps: Any + fmt::Debug + Send + Sync {
    /// The same again.
    fn copy(&self) -> Box<dyn Sweeps>;

    /// Sets an axis of all sweeps that have it.
    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError>;

    /// Refuses the first number that cannot be, of the grid of this name.
    fn check(&self, _grid: &str) -> Result<(), InvalidValue> {
        Ok(())
    }

    /// Applies further changes of the command line if axes are set.
    fn overridden(&mut self, _overrides: &Overrides) -> Result<(), SpecError> {
        Ok(())
    }

    /// Adds all trials and searches.
    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError>;

    /// Each of its sweeps as the only one, and the values of its axes.
    #[cfg(test)]
    fn each_alone(&self) -> Vec<(Box<dyn Sweeps>, AxisValues)>;
}

/// The axes of a sweep and their values, those of defaults included.
#[cfg(test)]
pub(crate) type AxisValues = Vec<(&'static str, Values)>;

/// An element of a grid's list declares its axes.
#[cfg(test)]
pub(crate) trait DeclaresAxes {
    /// Its axes; none where it is no sweep.
    fn declared(&self) -> AxisValues {
        Vec::new()
    }
}

impl Clone for Box<dyn Sweeps> {
    fn clone(&self) -> Box<dyn Sweeps> {
        (**self).copy()
    }
}

/// Sets each of these axes.
pub(crate) fn set_all<'a>(axes: impl IntoIterator<Item = &'a mut Values>, values: &Values) {
    axes.into_iter().for_each(|axis| *axis = values.clone());
}

/// Sweeps as they are read from a file.
pub(crate) trait GridLists: Sweeps + Default {
    /// The names of its lists.
    const NAMES: &'static [&'static str];

    /// Reads the list of this name.
    fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error>;
}

/// The lists of sweeps that the grids of an experiment have.
macro_rules! parts {
    ($(#[$doc:meta])* $visible:vis struct $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $sweep:ty,)*
    } $($methods:item)*) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $visible struct $name {
            $($(#[$field_doc])* pub $field: Vec<$sweep>,)*
        }

        impl $crate::spec::grid::GridLists for $name {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            fn read<'de, A: serde::de::MapAccess<'de>>(
                &mut self,
                name: &str,
                map: &mut A,
            ) -> Result<(), A::Error> {
                $(if name == stringify!($field) {
                    self.$field = map.next_value()?;
                })*
                Ok(())
            }
        }

        impl $crate::spec::grid::Sweeps for $name {
            fn copy(&self) -> Box<dyn $crate::spec::grid::Sweeps> {
                Box::new(self.clone())
            }

            #[cfg(test)]
            fn each_alone(
                &self,
            ) -> Vec<(Box<dyn $crate::spec::grid::Sweeps>, $crate::spec::grid::AxisValues)> {
                use $crate::spec::grid::{DeclaresAxes, Sweeps};
                let mut all: Vec<(Box<dyn Sweeps>, _)> = Vec::new();
                $(for sweep in &self.$field {
                    let mut alone = $name::default();
                    alone.$field.push(sweep.clone());
                    all.push((Box::new(alone), sweep.declared()));
                })*
                all
            }

            $($methods)*
        }
    };
}
pub(crate) use parts;

/// The fields of a sweep that are axes, which `--set` finds by their names.
macro_rules! axes {
    ($sweep:ident: $($axis:ident),+) => {
        impl $sweep {
            pub(crate) fn axis(&mut self, name: &str) -> Option<&mut $crate::values::Values> {
                $(if name == stringify!($axis) {
                    return Some(&mut self.$axis);
                })+
                None
            }
        }

        #[cfg(test)]
        impl $crate::spec::grid::DeclaresAxes for $sweep {
            fn declared(&self) -> $crate::spec::grid::AxisValues {
                vec![$((stringify!($axis), self.$axis.clone())),+]
            }
        }
    };
}
pub(crate) use axes;

/// A grid as the files of an experiment write it.
pub(super) struct WrittenGrid<P>(pub Grid, PhantomData<P>);

/// The fields of every grid.
const COMMON: [&str; 5] = ["repeats", "repeats_min", "duration_ms", "warmup_ms", "budget_s"];

impl<'de, P: GridLists> Deserialize<'de> for WrittenGrid<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WrittenGrid<P>, D::Error> {
        deserializer.deserialize_map(GridVisitor(PhantomData))
    }
}

struct GridVisitor<P>(PhantomData<P>);

impl<'de, P: GridLists> Visitor<'de> for GridVisitor<P> {
    type Value = WrittenGrid<P>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a grid")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WrittenGrid<P>, A::Error> {
        let (mut repeats, mut repeats_min, mut budget_s) = (None, 1, None);
        let (mut duration_ms, mut warmup_ms, mut sweeps) = (None, None, P::default());
        while let Some(name) = map.next_key_seed(GridField(P::NAMES))? {
            match name.as_str() {
                "repeats" => repeats = Some(map.next_value()?),
                "repeats_min" => repeats_min = map.next_value()?,
                "duration_ms" => duration_ms = Some(map.next_value()?),
                "warmup_ms" => warmup_ms = Some(map.next_value()?),
                "budget_s" => budget_s = Some(map.next_value()?),
                list => sweeps.read(list, &mut map)?,
            }
        }
        let missing = <A::Error as de::Error>::missing_field;
        let grid = Grid {
            repeats: repeats.ok_or_else(|| missing("repeats"))?,
            repeats_min,
            duration_ms: duration_ms.ok_or_else(|| missing("duration_ms"))?,
            warmup_ms: warmup_ms.ok_or_else(|| missing("warmup_ms"))?,
            budget_s,
            sweeps: Box::new(sweeps),
        };
        Ok(WrittenGrid(grid, PhantomData))
    }
}

/// The name of a field of a grid, or of one of these lists.
struct GridField(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for GridField {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for GridField {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<String, E> {
        let mut all = COMMON.iter().chain(self.0);
        if all.clone().any(|known| *known == name) {
            return Ok(name.to_owned());
        }
        let known: Vec<String> = all.by_ref().map(|known| format!("`{known}`")).collect();
        Err(E::custom(format!("unknown field `{name}`, expected one of {}", known.join(", "))))
    }
}

#[cfg(test)]
impl Grid {
    /// Its sweeps, which are those of this experiment.
    pub(crate) fn of<P: GridLists>(&self) -> &P {
        let sweeps: &dyn Any = &*self.sweeps;
        sweeps.downcast_ref().unwrap()
    }

    /// The same, to change.
    pub(crate) fn of_mut<P: GridLists>(&mut self) -> &mut P {
        let sweeps: &mut dyn Any = &mut *self.sweeps;
        sweeps.downcast_mut().unwrap()
    }
}
