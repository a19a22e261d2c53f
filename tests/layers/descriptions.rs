//! Architectures as text, in files, and refused.

use riemannian_laplace::Error;
use riemannian_laplace::internals::tensors::{TensorFile, Values, write};
use riemannian_laplace::{Activation, Architecture, Network};

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
    assert_eq!(kinks, [true, false, false, false, false, false, false, true, false]);
    // A hinge before the first parameters is not a kink in the parameters.
    assert!(!Architecture::of_layers(vec![Activation::Relu.into(), linear(1, 1)])?.has_kinks());
    for case in cases() {
        assert_eq!(case.network.architecture().activation(), None, "{}", case.name);
    }
    Ok(())
}

#[test]
fn layers_that_make_no_network_are_refused() {
    for (layers, word) in [
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
