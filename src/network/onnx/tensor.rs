//! What a name of the graph stands for: numbers, parameters or data, in a shape of which one axis may hold the points.
//!
//! An axis that holds the points has length before·N·after in the graph: a reshape may have joined the points with the axes
//! around them. Here its length is before·after, that of a single point, so that places within a point can be computed with
//! these lengths alone.

use std::rc::Rc;

use super::trouble::{Step, refuse};
use crate::network::graph::{self, Indices};

/// The lengths of the axes for a single point, and where the points are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The lengths.
    pub lengths: Vec<usize>,
    /// The axis of the points; `None` for what is the same at every point.
    pub points: Option<Points>,
}

/// An axis of length before·N·after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Points {
    /// The axis.
    pub axis: usize,
    /// What varies more slowly than the points.
    pub before: usize,
    /// What varies faster.
    pub after: usize,
}

/// The length of an axis: a number, or that many times the number of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The number.
    pub number: i64,
    /// Whether it is a multiple of the number of points.
    pub per_point: bool,
}

/// Numbers that are known.
#[derive(Debug, Clone, PartialEq)]
pub struct Constant {
    /// Last axis fastest; whole numbers and truth values are stored as f64 too.
    pub values: Rc<[f64]>,
    /// Whether they are whole numbers.
    pub whole: bool,
    /// Which of them are to be multiplied by the number of points; `None` where none is.
    pub per_point: Option<Rc<[bool]>>,
}

/// How a value depends on the columns of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Columns as they are.
    Column,
    /// Columns of whole numbers.
    Integer,
    /// Columns that the graph rounds: good for looking up rows of a table, where whole numbers are demanded.
    Category,
    /// Anything else.
    Computed,
}

/// What a tensor holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Numbers.
    Constant(Constant),
    /// Parameters, by their places in the file.
    Parameter(Indices),
    /// A value of the graph, with the lengths of the shape.
    Data(graph::Value, Origin),
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Its shape.
    pub shape: Shape,
    /// What it holds.
    pub content: Content,
}

/// The product of lengths; `None` if it overflows.
pub fn product(lengths: &[usize]) -> Option<usize> {
    lengths.iter().try_fold(1_usize, |size, length| size.checked_mul(*length))
}

/// An axis counted from the end where it is negative.
pub fn axis_of(axis: i64, rank: usize) -> Step<usize> {
    let place = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    match usize::try_from(place) {
        Ok(place) if place < rank => Ok(place),
        _ => refuse(format!("there is no axis {axis} among {rank}")),
    }
}

impl From<i64> for Size {
    fn from(number: i64) -> Self {
        Self { number, per_point: false }
    }
}

impl Shape {
    /// Of something that is the same at every point.
    pub fn still(lengths: impl Into<Vec<usize>>) -> Self {
        Self { lengths: lengths.into(), points: None }
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.lengths.len()
    }

    /// The number of entries.
    pub fn size(&self) -> usize {
        graph::size(&self.lengths)
    }

    /// The length of an axis; 1 where there is none.
    pub fn length(&self, axis: usize) -> usize {
        self.lengths.get(axis).copied().unwrap_or(1)
    }

    /// An axis counted from the end where it is negative, which must not be that of the points.
    pub fn axis(&self, axis: i64) -> Step<usize> {
        let axis = axis_of(axis, self.rank())?;
        match self.holds_points(axis) {
            true => refuse("it works along the axis of the points, so one point would depend on others"),
            false => Ok(axis),
        }
    }

    /// Whether an axis holds the points.
    pub fn holds_points(&self, axis: usize) -> bool {
        self.points.is_some_and(|points| points.axis == axis)
    }

    /// The lengths as the graph sees them.
    pub fn sizes(&self) -> Vec<Size> {
        let size = |(axis, length): (usize, &usize)| Size { number: *length as i64, per_point: self.holds_points(axis) };
        self.lengths.iter().enumerate().map(size).collect()
    }

    /// The axes in another order.
    pub fn permuted(&self, axes: &[usize]) -> Self {
        let moved = |points: Points| {
            axes.iter().position(|axis| *axis == points.axis).map(|axis| Points { axis, ..points })
        };
        Self { lengths: axes.iter().map(|axis| self.length(*axis)).collect(), points: self.points.and_then(moved) }
    }

    /// The same with another length of an axis.
    pub fn with_length(&self, axis: usize, length: usize) -> Self {
        let mut shape = self.clone();
        if let Some(own) = shape.lengths.get_mut(axis) {
            *own = length;
        }
        shape
    }

    /// The same entries in axes of other lengths; `fixed` is the number of points that the graph is for, if it is for one only.
    pub fn reshaped(&self, target: &[Size], fixed: Option<usize>) -> Step<Self> {
        let cannot = || refuse(format!("it cannot give {:?} values the shape {:?}", self.lengths, numbers(target)));
        let lengths: Option<Vec<usize>> = target.iter().map(|size| usize::try_from(size.number).ok()).collect();
        let Some(mut lengths) = lengths else { return cannot() };
        let named = target.iter().position(|size| size.per_point);
        let Some(points) = self.points else {
            let same = named.is_none() && product(&lengths) == product(&self.lengths);
            return if same { Ok(Self::still(lengths)) } else { cannot() };
        };
        // How many entries are outside of the points.
        let outer = product(self.lengths.get(..points.axis).unwrap_or_default()).map_or(0, |size| size * points.before);
        let at = |axis: usize, length: usize, before_it: usize, count: usize| {
            let before = outer.checked_div(before_it).filter(|before| before * before_it == outer && *before > 0)?;
            let after = length.checked_div(before * count).filter(|after| after * before * count == length)?;
            Some(Points { axis, before, after })
        };
        let count = match (fixed, named) {
            (_, Some(_)) => 1,
            (Some(count), None) => count.max(1),
            (None, None) => return cannot(),
        };
        if product(&lengths) != product(&self.lengths).and_then(|size| size.checked_mul(count)) {
            return cannot();
        }
        let mut before_it = 1;
        let mut found: Option<Points> = None;
        for (axis, length) in lengths.iter().enumerate() {
            let place = at(axis, *length, before_it, count).filter(|_| named.is_none_or(|named| named == axis));
            let alone = |points: &Points| points.before * points.after == 1;
            found = match (found, place) {
                (Some(first), Some(place)) if !alone(&first) && alone(&place) => Some(place),
                (first, place) => first.or(place),
            };
            before_it *= length;
        }
        let Some(points) = found else {
            return refuse("it rearranges values among points, so one point would depend on others");
        };
        if let Some(length) = lengths.get_mut(points.axis) {
            *length = points.before * points.after;
        }
        Ok(Self { lengths, points: Some(points) })
    }
}

/// Sizes for people.
fn numbers(sizes: &[Size]) -> Vec<String> {
    let text = |size: &Size| if size.per_point { format!("{}·N", size.number) } else { size.number.to_string() };
    sizes.iter().map(text).collect()
}

impl Constant {
    /// Real numbers.
    pub fn real(values: Vec<f64>) -> Self {
        Self { values: values.into(), whole: false, per_point: None }
    }

    /// Entry by entry, as sizes.
    pub fn size(&self, place: usize) -> Size {
        let number = self.values.get(place).copied().unwrap_or(0.0) as i64;
        Size { number, per_point: self.is_per_point(place) }
    }

    /// Whether an entry is to be multiplied by the number of points.
    pub fn is_per_point(&self, place: usize) -> bool {
        self.per_point.as_ref().is_some_and(|flags| flags.get(place).copied().unwrap_or(false))
    }

    /// From sizes.
    pub fn of_sizes(sizes: &[Size]) -> Self {
        let per_point = sizes.iter().any(|size| size.per_point);
        Self {
            values: sizes.iter().map(|size| size.number as f64).collect(),
            whole: true,
            per_point: per_point.then(|| sizes.iter().map(|size| size.per_point).collect()),
        }
    }

    /// Entries at these places, or a number where there is none.
    pub fn entries(&self, places: &[Option<usize>], fill: f64) -> Self {
        let value = |place: &Option<usize>| place.map_or(fill, |place| self.values.get(place).copied().unwrap_or(fill));
        let flags = |_: &Rc<[bool]>| {
            places.iter().map(|place| place.is_some_and(|place| self.is_per_point(place))).collect::<Rc<[bool]>>()
        };
        let per_point = self.per_point.as_ref().map(flags).filter(|flags| flags.contains(&true));
        Self { values: places.iter().map(value).collect(), whole: self.whole, per_point }
    }
}

impl Tensor {
    /// Numbers that are the same at every point.
    pub fn constant(lengths: impl Into<Vec<usize>>, constant: Constant) -> Self {
        Self { shape: Shape::still(lengths), content: Content::Constant(constant) }
    }

    /// A single number.
    pub fn number(value: f64) -> Self {
        Self::constant(Vec::new(), Constant::real(vec![value]))
    }

    /// Sizes in a list.
    pub fn of_sizes(sizes: &[Size]) -> Self {
        Self::constant(vec![sizes.len()], Constant::of_sizes(sizes))
    }

    /// The constant, if it is one.
    pub fn as_constant(&self) -> Option<&Constant> {
        match &self.content {
            Content::Constant(constant) => Some(constant),
            _ => None,
        }
    }

    /// The number, if it is a constant with one entry.
    pub fn as_number(&self) -> Option<f64> {
        match (self.as_constant(), self.shape.size()) {
            (Some(constant), 1) if constant.per_point.is_none() => constant.values.first().copied(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(axis: usize, before: usize, after: usize) -> Option<Points> {
        Some(Points { axis, before, after })
    }

    fn size(number: i64, per_point: bool) -> Size {
        Size { number, per_point }
    }

    #[test]
    fn points_are_joined_with_other_axes_and_split_off_again() {
        // [5, N, 12] becomes [5, 3·N, 4] as attention has it, then [5·N, 12], and [5, N, 12] again.
        let start = Shape { lengths: vec![5, 1, 12], points: points(1, 1, 1) };
        let heads = start.reshaped(&[5.into(), size(3, true), 4.into()], None).ok().expect("heads beside the points");
        assert_eq!(heads, Shape { lengths: vec![5, 3, 4], points: points(1, 1, 3) });
        let rows = heads.reshaped(&[size(5, true), 12.into()], None).ok().expect("tokens beside the points");
        assert_eq!(rows, Shape { lengths: vec![5, 12], points: points(0, 5, 1) });
        assert_eq!(rows.reshaped(&start.sizes(), None).ok().expect("as before"), start);
        assert!(rows.reshaped(&[size(60, true)], None).is_ok());
        assert!(start.reshaped(&[size(2, true), 30.into()], None).is_err());
    }

    #[test]
    fn a_graph_for_a_fixed_number_of_points_names_them_by_their_number() {
        let start = Shape { lengths: vec![1, 3, 4], points: points(0, 1, 1) };
        let flat = start.reshaped(&[4.into(), 12.into()], Some(4)).ok().expect("four points");
        assert_eq!(flat, Shape { lengths: vec![1, 12], points: points(0, 1, 1) });
        let squeezed = start.reshaped(&[3.into(), 4.into()], Some(1)).ok().expect("one point");
        assert_eq!(squeezed, Shape { lengths: vec![3, 4], points: points(0, 1, 3) });
        assert_eq!(squeezed.reshaped(&[1.into(), 3.into(), 4.into()], Some(1)).ok().expect("as before"), start);
        assert!(start.reshaped(&[3.into(), 16.into()], Some(4)).is_err());
    }
}
