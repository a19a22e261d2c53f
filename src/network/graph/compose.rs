//! Parts of networks that are made of several nodes: embeddings and attention.

use super::build::{GraphBuilder, Value, View, refuse};
use super::node::Kind;
use crate::error::Result;

impl GraphBuilder {
    /// The row of a table `[categories, width]` for every entry, a whole number from 0 on: the shape gains an axis.
    pub fn embedding(&mut self, value: Value, table: &View) -> Result<Value> {
        let [categories, _] = table.shape[..] else {
            return Err(refuse("an embedding", format!("needs a table, not parameters of shape {:?}", table.shape)));
        };
        let shape = [self.shape(value), &[categories]].concat();
        let hot = self.node(Kind::OneHot(categories), &[value], &shape)?;
        self.linear(hot, &table.transposed()?, None)
    }

    /// Attention softmax(QKᵀ/√d)V in several heads: queries `[T, E]`, keys and values `[S, E]`, d = E/heads.
    ///
    /// ```
    /// use riemannian_laplace::internals::network::graph::GraphBuilder;
    ///
    /// let mut graph = GraphBuilder::new();
    /// let x = graph.input(&[5, 4]);
    /// let mut project = |name: &str| -> Result<_, riemannian_laplace::Error> {
    ///     let weight = graph.parameter(name, &[4, 4], (0..16).map(|i| (i as f64).sin()).collect())?;
    ///     graph.linear(x, &weight, None)
    /// };
    /// let (q, k, v) = (project("q.weight")?, project("k.weight")?, project("v.weight")?);
    /// let mixed = graph.attention(q, k, v, 2)?;
    /// assert_eq!(graph.shape(mixed), [5, 4]);
    /// # Ok::<(), riemannian_laplace::Error>(())
    /// ```
    pub fn attention(&mut self, queries: Value, keys: Value, values: Value, heads: usize) -> Result<Value> {
        let (shape, width) = match self.shape(queries) {
            [tokens, width] if heads > 0 && width.is_multiple_of(heads) => ([*tokens, *width], width / heads),
            shape => {
                let problem = format!("cannot split values of shape {shape:?} into {heads} heads");
                return Err(refuse("an attention", problem));
            }
        };
        let mut split = |value: Value| -> Result<Value> {
            let tokens = self.shape(value).first().copied().unwrap_or(0);
            let heads = self.reshape(value, &[tokens, heads, width])?;
            self.transpose(heads, &[1, 0, 2])
        };
        let (queries, keys, values) = (split(queries)?, split(keys)?, split(values)?);
        let keys = self.transpose(keys, &[0, 2, 1])?;
        let scores = self.matmul(queries, keys)?;
        let scores = self.rescale(scores, 1.0 / (width as f64).sqrt(), 0.0)?;
        let weights = self.softmax(scores, 2)?;
        let mixed = self.matmul(weights, values)?;
        let mixed = self.transpose(mixed, &[1, 0, 2])?;
        self.reshape(mixed, &shape)
    }

    /// The tensor of this name, if there is one already.
    pub fn named(&self, name: &str) -> Option<View> {
        let ranges = super::ranges(self.tensors());
        let own = self.tensors().iter().zip(ranges).find(|(tensor, _)| tensor.name == name);
        own.map(|(tensor, range)| View { shape: tensor.shape.clone(), places: super::Indices::Range(range) })
    }
}
