//! Golden sections: the minimum of a function of one variable between two ends, from values alone.

/// Narrows the interval until it is no wider than `tolerance`: each step drops the part beyond the worse of two points
/// that cut it in the golden ratio, of which the next step uses one again. The caller keeps what it wants of the points
/// that `f` has seen.
///
/// ```
/// use riemannian_laplace::internals::optimize::golden_section;
///
/// let mut best = (f64::INFINITY, 0.0);
/// golden_section((-1.0, 4.0), 1e-3, |x: f64| {
///     let value = (x - 1.5).powi(2);
///     if value < best.0 {
///         best = (value, x);
///     }
///     Ok::<_, ()>(value)
/// })
/// .unwrap();
/// assert!((best.1 - 1.5).abs() < 1e-3);
/// ```
pub fn golden_section<E>(
    (mut low, mut high): (f64, f64),
    tolerance: f64,
    mut f: impl FnMut(f64) -> Result<f64, E>,
) -> Result<(), E> {
    const RATIO: f64 = 0.618_033_988_749_894_9;
    let (mut left, mut right) = (high - RATIO * (high - low), low + RATIO * (high - low));
    let (mut at_left, mut at_right) = (f(left)?, f(right)?);
    while high - low > tolerance {
        if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - RATIO * (high - low);
            at_left = f(left)?;
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + RATIO * (high - low);
            at_right = f(right)?;
        }
    }
    Ok(())
}
