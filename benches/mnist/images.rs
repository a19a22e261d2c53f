//! MNIST's files: big-endian sizes, then one byte per pixel or label, as they are or compressed by gzip.

use std::error::Error;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use ndarray::Array2;

/// Images, one per row, each pixel between 0 and 1.
pub fn images(folder: &Path, name: &str) -> Result<Array2<f64>, Box<dyn Error>> {
    let (sizes, bytes) = read(folder, &format!("{name}-images-idx3-ubyte"), 3)?;
    Ok(Array2::from_shape_vec(
        (sizes[0], sizes[1] * sizes[2]),
        bytes.iter().map(|&grey| f64::from(grey) / 255.0).collect(),
    )?)
}

/// Labels, in one column.
pub fn labels(folder: &Path, name: &str) -> Result<Array2<f64>, Box<dyn Error>> {
    let (sizes, bytes) = read(folder, &format!("{name}-labels-idx1-ubyte"), 1)?;
    Ok(Array2::from_shape_vec((sizes[0], 1), bytes.into_iter().map(f64::from).collect())?)
}

/// The sizes and the bytes of one file.
fn read(folder: &Path, name: &str, dimensions: usize) -> Result<(Vec<usize>, Vec<u8>), Box<dyn Error>> {
    let compressed = folder.join(format!("{name}.gz"));
    let path: PathBuf = if compressed.exists() { compressed.clone() } else { folder.join(name) };
    let wrong = |what: String| format!("{}: {what}", path.display());
    let mut bytes = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
    if path == compressed {
        let mut plain = Vec::new();
        GzDecoder::new(&bytes[..]).read_to_end(&mut plain).map_err(|error| wrong(error.to_string()))?;
        bytes = plain;
    }
    let number = |index: usize| -> Option<u32> {
        Some(u32::from_be_bytes(bytes.get(4 * index..4 * index + 4)?.try_into().ok()?))
    };
    // 8 is the code of unsigned bytes, and the last byte is the number of dimensions.
    if number(0) != Some(0x0800 + dimensions as u32) {
        return Err(wrong(format!("is not a file of bytes with {dimensions} dimensions")).into());
    }
    let sizes: Vec<usize> = (1..=dimensions).filter_map(|index| number(index).map(|size| size as usize)).collect();
    let header = 4 * (dimensions + 1);
    let expected = sizes.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
    if sizes.len() < dimensions || expected != bytes.len().checked_sub(header) {
        return Err(wrong(format!("has {} bytes, which is not what its sizes {sizes:?} say", bytes.len())).into());
    }
    Ok((sizes, bytes.split_off(header)))
}
