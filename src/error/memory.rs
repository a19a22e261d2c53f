//! Amounts of memory, in words.

/// An amount in GB (10⁹ bytes) for a message: two decimals, or two significant digits where that would read 0.
pub(crate) fn gigabytes(amount: f64) -> String {
    let decimals = if amount > 0.0 && amount < 0.1 { (1.0 - amount.log10().floor()).min(9.0) } else { 2.0 };
    format!("{amount:.*} GB", decimals as usize)
}

/// The part of the limit that other work uses, for a message; empty if there is none.
pub(super) fn in_use(reserved: f64) -> String {
    if reserved > 0.0 { format!(", of which {} are in use", gigabytes(reserved)) } else { String::new() }
}
