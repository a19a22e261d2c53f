//! The example `graphs`: networks that are not chains, from ONNX to certified samples.

#[path = "../examples/graphs/main.rs"]
#[allow(dead_code, reason = "its main function is for people")]
mod graphs;

#[test]
fn a_transformer_an_lstm_and_a_vision_transformer_have_certified_samples() -> Result<(), Box<dyn std::error::Error>> {
    let rows = graphs::run()?;
    let sizes: Vec<(&str, usize)> = rows.iter().map(|row| (row.name.as_str(), row.n_params)).collect();
    assert_eq!(sizes, [("transformer", 713), ("recurrent", 361), ("vision", 858), ("vision, last layer", 90)]);
    for row in &rows {
        assert_eq!(row.samples.0, row.samples.1, "{}: not all samples are certified", row.name);
        assert!(row.nll.iter().all(|nll| nll.is_finite()), "{}: {:?}", row.name, row.nll);
    }
    Ok(())
}
