//! Tests against values of `ot.emd2` from POT, and the clouds they share with the script
//! `tests/fixtures/transport/make.py`.

use super::{TransportOptions, wasserstein1};
use serde_json::Value;

/// Splitmix64.
pub(super) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform on [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 * 2f64.powi(-53)
    }

    /// A centred sum of four uniforms.
    pub fn bell(&mut self) -> f64 {
        let first = self.uniform() + self.uniform();
        first + (self.uniform() + self.uniform()) - 2.0
    }
}

/// Coordinates from [`Random::bell`].
pub(super) fn bells(seed: u64, count: usize) -> Vec<f64> {
    let mut random = Random(seed);
    (0..count).map(|_| random.bell()).collect()
}

/// Points of coordinates scale ratio^k (bell + shift), on a grid if step > 0.
fn cloud(seed: u64, count: usize, dim: usize, [scale, ratio, shift, step]: [f64; 4]) -> Vec<f64> {
    let mut random = Random(seed);
    let mut rows = Vec::with_capacity(count * dim);
    for _ in 0..count {
        let mut factor = scale;
        for _ in 0..dim {
            let x = factor * (random.bell() + shift);
            rows.push(if step > 0.0 { (x / step).floor() * step } else { x });
            factor *= ratio;
        }
    }
    rows
}

fn four(value: &Value) -> [f64; 4] {
    [0, 1, 2, 3].map(|k| value[k].as_f64().unwrap())
}

#[test]
fn agrees_with_pot() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/transport/pot.json");
    let text = std::fs::read_to_string(path).unwrap();
    let fixture: Value = serde_json::from_str(&text).unwrap();
    let cases = fixture["cases"].as_array().unwrap();
    assert!(cases.len() >= 16);
    for case in cases {
        let count = |key: &str| case[key].as_u64().unwrap() as usize;
        let (n, m, dim) = (count("n"), count("m"), count("dim"));
        let seed = |k: usize| case["seeds"][k].as_u64().unwrap();
        let a = cloud(seed(0), n, dim, four(&case["first"]));
        let b = cloud(seed(1), m, dim, four(&case["second"]));
        // The same points as in the script (reading decimals may round).
        for (points, k) in [(&a, 0), (&b, 1)] {
            let last = case["last"][k].as_f64().unwrap();
            assert!((points[points.len() - 1] - last).abs() <= 1e-15 * last.abs());
        }
        let expected = case["distance"].as_f64().unwrap();
        let found = wasserstein1(&a, &b, dim, &TransportOptions::default()).unwrap();
        let error = (found.distance - expected).abs() / expected;
        assert!(error < 1e-10, "{case}: {found:?}, off by {error:.1e}");
        assert!(found.relative_gap < 1e-12, "{case}: {found:?}");
    }
}
