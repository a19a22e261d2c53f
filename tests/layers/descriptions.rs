//! Architectures as text, in files, and refused.

use riemannian_laplace::Error;
use riemannian_laplace::internals::tensors::{TensorFile, Values, write};
use riemannian_laplace::{
    Activation, Architecture, AvgPool2d, BatchNorm, Conv2d, GlobalAvgPool, GroupNorm, Image, Layer, LayerNorm,
    MaxPool2d, Network, Residual,
};

use super::common::Outcome;
use super::{Case, cases, linear, without_bias};

#[test]
fn networks_come_back_from_text_and_files() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    for Case { network, name, .. } in cases() {
        let text = serde_json::to_string(network.architecture())?;
        assert_eq!(serde_json::from_str::<Architecture>(&text)?, *network.architecture(), "{text}");
        network.save(&path)?;
        let loaded = Network::load(&path, None)?;
        assert_eq!(loaded, network, "{name}");
        assert_eq!(loaded.fingerprint(), network.fingerprint());
    }
    // A list of layers that does not fit the tensors is refused, with a message about both.
    let first = cases().next().ok_or("no cases")?.network;
    first.save(&path)?;
    let asked = Network::load(&path, Some(Activation::Sin))?;
    assert_eq!(asked.architecture(), &Architecture::new(&[2, 4, 3, 2], Activation::Sin)?);
    assert_eq!(asked.parameters(), first.parameters());
    let layers = [
        ("[]", "layers"),
        ("[{\"linear\":{\"inputs\":2,\"outputs\":4,\"bias\":true}}]", "`2.bias`"),
        ("[{\"linear\":{\"inputs\":4,\"outputs\":2,\"bias\":true}}]", "shape [4, 2]"),
        ("[{\"activation\":\"tanh\"},{\"linear\":{\"inputs\":2,\"outputs\":4,\"bias\":true}}]", "`1.weight`"),
        ("[{\"pooling\":2}]", "pooling"),
    ];
    for (text, word) in layers {
        let mut file = TensorFile::read(&path)?;
        file.metadata.insert("layers".to_string(), text.to_string());
        let entries: Vec<_> = file
            .tensors
            .iter()
            .map(|(name, tensor)| {
                let values = Values::Real(&tensor.values);
                (name.as_str(), tensor.shape.clone(), values)
            })
            .collect();
        let changed = folder.path().join("changed.safetensors");
        write(&changed, &entries, file.metadata.clone())?;
        let message = Network::load(&changed, None).err().ok_or(format!("{text} was read"))?.to_string();
        assert!(message.contains(word), "{text}: {message}");
    }
    Ok(())
}

#[test]
fn plain_perceptrons_are_chains_too() -> Outcome {
    let layers = vec![linear(1, 10), Activation::Tanh.into(), linear(10, 1)];
    let architecture = Architecture::of_layers(layers)?;
    assert_eq!(architecture, Architecture::new(&[1, 10, 1], Activation::Tanh)?);
    assert_eq!((architecture.to_string().as_str(), architecture.activation()), ("1-10-1 tanh", Some(Activation::Tanh)));
    let names: Vec<String> = architecture.parameter_groups().into_iter().map(|group| group.name).collect();
    assert_eq!(names, ["0.weight", "0.bias", "2.weight", "2.bias"]);
    assert_eq!(architecture.layer_params(), [20, 11]);
    let kinks: Vec<bool> = cases().map(|case| case.network.architecture().has_kinks()).collect();
    assert_eq!(kinks[..9], [true, false, false, false, false, true, false, true, false]);
    // Max pooling after parameters, and relu in a residual block; max pooling of the inputs has no kink in θ.
    let others: Vec<usize> = (9..kinks.len()).filter(|index| kinks[*index]).map(|index| index - 9).collect();
    assert_eq!(others, [3, 16]);
    // A hinge before the first parameters is not a kink in the parameters.
    assert!(!Architecture::of_layers(vec![Activation::Relu.into(), linear(1, 1)])?.has_kinks());
    for case in cases() {
        assert_eq!(case.network.architecture().activation(), None, "{}", case.name);
    }
    Ok(())
}

#[test]
fn branches_that_make_no_residual_block_are_refused() {
    for (body, shortcut, word) in [
        (vec![], vec![linear(2, 2)], "layers in its body"),
        (vec![Activation::Tanh.into()], vec![Layer::Dropout], "a known number of inputs"),
        (vec![linear(2, 3)], vec![], "3 outputs in its body, but 2 in its shortcut"),
        (vec![linear(2, 3)], vec![linear(3, 3)], "a shortcut whose layer 0 (linear 3 → 3) takes 3 inputs"),
        (vec![linear(2, 3), linear(2, 2)], vec![], "a body whose layer 1 (linear 2 → 2)"),
    ] {
        let error = Residual::new(body.clone(), shortcut.clone()).expect_err("an error");
        assert!(error.to_string().contains(word), "{error}");
        let layers = [("body", body), ("shortcut", shortcut)];
        let text = serde_json::to_string(&std::collections::BTreeMap::from(layers)).expect("layers are written");
        let error = serde_json::from_str::<Architecture>(&format!("[{{\"residual\":{text}}}]")).expect_err("an error");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn parameters_inside_residual_blocks_are_named_by_branch() -> Outcome {
    let body = vec![linear(2, 4), Activation::Tanh.into(), linear(4, 3)];
    let block = Residual::new(body, vec![without_bias(2, 3)])?;
    let architecture = Architecture::of_layers(vec![block.into(), linear(3, 1)])?;
    let names: Vec<String> = architecture.parameter_groups().into_iter().map(|group| group.name).collect();
    let expected = ["0.body.0.weight", "0.body.0.bias", "0.body.2.weight", "0.body.2.bias", "0.shortcut.0.weight"];
    assert_eq!(names[..5], expected);
    assert_eq!(architecture.layer_params(), [12, 15, 6, 4]);
    let shown = "residual (linear 2 → 4, tanh, linear 4 → 3; shortcut: linear 2 → 3 without bias), linear 3 → 1";
    assert_eq!(architecture.to_string(), shown);
    Ok(())
}

#[test]
fn layers_that_make_no_network_are_refused() {
    let image = Image::new(2, 4, 4);
    let conv = Conv2d::new(image, 4, [3, 3]);
    let pool = MaxPool2d::new(image, [2, 2]);
    let batch_norm = BatchNorm::new(image, vec![0.0; 2], vec![1.0; 2]);
    let after = |layer: Layer| vec![linear(3, 32), layer];
    for (layers, word) in [
        (vec![Conv2d { stride: [0, 1], ..conv }.into()], "strides"),
        (vec![Conv2d { dilation: [1, 2], ..conv }.into()], "does not fit into 4×4 pixels"),
        (vec![Conv2d { padding: [usize::MAX, 0], ..conv }.into()], "does not fit"),
        (vec![Conv2d { groups: 0, ..conv }.into()], "into 0 groups"),
        (vec![Conv2d { groups: 4, ..conv }.into()], "2 input and 4 output channels into 4 groups"),
        (vec![Conv2d { outputs: 0, ..conv }.into()], "at least one"),
        (vec![conv.into(), linear(4, 1)], "takes 4 inputs, but the layer before it has 16"),
        (vec![Conv2d::new(Image::new(usize::MAX, 4, 4), 1, [3, 3]).into()], "counted"),
        (after(MaxPool2d { padding: [2, 0], ..pool }.into()), "more than half its window"),
        (after(AvgPool2d { kernel: [5, 1], ..AvgPool2d::new(image, [2, 2]) }.into()), "does not fit"),
        (after(GlobalAvgPool::new(Image::new(32, 0, 1)).into()), "at least 1"),
        (after(LayerNorm { inputs: 32, ..LayerNorm::new(5) }.into()), "5 values at a time, but has 32 inputs"),
        (after(LayerNorm { eps: -1.0, ..LayerNorm::new(32) }.into()), "an epsilon of zero or more, not -1"),
        (after(GroupNorm::new(image, 3).into()), "2 channels into 3 groups"),
        (after(BatchNorm { mean: vec![0.0], ..batch_norm.clone() }.into()), "1 means and 2 variances for 2 channels"),
        (after(BatchNorm { variance: vec![1.0, -1.0], ..batch_norm }.into()), "not positive"),
        (vec![GlobalAvgPool::new(image).into()], "has no parameters"),
        (vec![], "the list of layers"),
        (vec![Activation::Tanh.into()], "the list of layers"),
        (vec![linear(2, 3), Activation::Tanh.into(), linear(4, 1)], "layer 2 (linear 4 → 1)"),
        (vec![linear(2, 0)], "at least one"),
        (vec![without_bias(0, 2)], "at least one"),
        (vec![linear(usize::MAX, 2)], "counted"),
        (vec![linear(1, 1 << 40), linear(1 << 40, 1)], ""),
        (vec![linear(1, 1 << 40), linear(1 << 40, 1 << 30)], "layer 1"),
    ] {
        let outcome = Architecture::of_layers(layers.clone());
        if word.is_empty() {
            assert!(outcome.is_ok());
            continue;
        }
        let error = outcome.expect_err("an error");
        assert!(matches!(error, Error::Architecture { .. }) && error.to_string().contains(word), "{error}");
        let text = serde_json::to_string(&layers).expect("layers are written");
        assert!(serde_json::from_str::<Architecture>(&text).is_err(), "{text}");
    }
}
