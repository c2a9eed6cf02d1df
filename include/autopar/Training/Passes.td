// SPDX-License-Identifier: Apache-2.0
// The passes that make a training step out of a forward function.

#ifndef AUTOPAR_TRAINING_PASSES_TD
#define AUTOPAR_TRAINING_PASSES_TD

include "mlir/Pass/PassBase.td"

def ChooseTrainablePass : Pass<"autopar-choose-trainable", "mlir::ModuleOp"> {
  let summary = "decide which parameters are trained";
  let description = [{
    Marks arguments of `@main` that come from an `autopar.origin` with `autopar.trainable`: the text
    "decay" where weight decay applies, else "no_decay". Runs directly after import, on the shapes of
    the model file. The rule: floats of at least one dimension and more than one element, except running statistics (names
    that end in running_mean or running_var). Patterns of names (`*` and `?`) change that: `freeze`
    takes parameters out, `train-only` takes all others out. Weight decay applies to parameters of two or more
    dimensions, that is, not to biases and the scales of normalizations. Every decision is a remark.

    ```mlir
    autopar.origin @w : tensor<4x4xf32>
    func.func @main(%x: tensor<2x4xf32>, %w: tensor<4x4xf32> {autopar.origin = @w}) -> tensor<2x4xf32>
    ```
    gets
    ```mlir
    %w: tensor<4x4xf32> {autopar.origin = @w, autopar.trainable = "decay"}
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    ListOption<"freeze", "freeze", "std::string", "patterns of parameters that keep their values">,
    ListOption<"trainOnly", "train-only", "std::string", "patterns of the only parameters that are trained">,
  ];
}

def BuildTrainingStepPass : Pass<"autopar-build-training-step", "mlir::ModuleOp"> {
  let summary = "turn a forward function into a training step";
  let description = [{
    Adds loss, derivatives, clipping and the optimizer's update to `@main`, which becomes a function of
    (parameters, batch, state, control) that returns (parameters, state, metrics). An argument that the
    step replaces has `autopar.donated`, and the result of the same `autopar.name` is its new value.
    State starts at zero. The learning rate and the number of the step are arguments with
    `autopar.control`, never constants. A metric with `autopar.guard` must be finite for the step to change anything. Backward operations are named after their forward operation: `fc/vjp.0` for its
    first operand; updates after the parameter: `w/update`.

    ```mlir
    func.func @main(%x: tensor<2x4xf32>, %w: tensor<4x4xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"})
        -> (tensor<2x4xf32> {autopar.name = "y"})
    ```
    with `loss=mse(y,target) optimizer=momentum(lr=0.1)` becomes
    ```mlir
    func.func @main(%x: tensor<2x4xf32>, %w: tensor<4x4xf32> {autopar.donated, autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"},
                    %target: tensor<2x4xf32> {autopar.name = "target"}, %m: tensor<4x4xf32> {autopar.donated, autopar.name = "w/momentum"},
                    %rate: tensor<f64> {autopar.control = "learning_rate", autopar.initial = 0.1 : f64, autopar.name = "control.learning_rate"},
                    %step: tensor<i64> {autopar.control = "step", autopar.name = "control.step"})
        -> (tensor<4x4xf32> {autopar.name = "w"}, tensor<4x4xf32> {autopar.name = "w/momentum"},
            tensor<f32> {autopar.guard, autopar.metric, autopar.name = "loss"}, tensor<f64> {autopar.metric, autopar.name = "learning_rate"})
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"loss", "loss", "std::string", "\"\"", "loss function, such as softmax_cross_entropy(logits,labels)">,
    Option<"optimizer", "optimizer", "std::string", "\"sgd\"", "optimizer, such as adamw(lr=3e-4,weight_decay=0.1)">,
    Option<"schedule", "lr-schedule", "std::string", "\"\"", "learning-rate schedule, such as cosine(warmup=100,steps=2000)">,
    Option<"clipNorm", "clip-norm", "double", "0", "largest norm of all gradients together; 0 = any">,
  ];
}

#endif
