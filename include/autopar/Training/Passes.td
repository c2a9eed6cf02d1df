// SPDX-License-Identifier: Apache-2.0
// The passes that make a training step out of a forward function.

#ifndef AUTOPAR_TRAINING_PASSES_TD
#define AUTOPAR_TRAINING_PASSES_TD

include "mlir/Pass/PassBase.td"

def AddAdaptersPass : Pass<"autopar-add-adapters", "mlir::ModuleOp"> {
  let summary = "put low-rank adapters beside the matrices of a model";
  let description = [{
    Every product x W of the forward function `@main` with a matrix that parameters and constants alone make, such as
    one of few bits that is dequantized, becomes x W + alpha / rank (x A^T) B^T with new parameters A [rank, in] and B
    [out, rank] that have `autopar.adapter` and, if `drawn`, an origin which says how they are drawn (`autopar.drawn`): as
    PEFT does it, so that the model computes at first what it did. Products with one matrix share A and B. They are called after the
    matrix: `fc.lora_A.weight` for `fc.weight`. Patterns of parameters in `adapt` say which matrices; without any it is all
    of them but those of the last products on the way to a result and of products that only lead to a choice (the routers of
    experts). Runs directly after import, before autopar-choose-trainable, which trains adapters alone if nothing else is asked for.

    ```mlir
    %y = autopar.dot_general %x, %w contract [1] x [0] : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
    ```
    becomes, with `adapters=lora(rank=2,alpha=4)`,
    ```mlir
    %y = autopar.dot_general %x, %w contract [1] x [0] : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
    %l = autopar.dot_general %x, %a contract [1] x [1] : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x2xf32>
    %c = autopar.constant dense<2.0> : tensor<2x2xf32>
    %s = autopar.binary mul %l, %c : tensor<2x2xf32>
    %h = autopar.dot_general %s, %b contract [1] x [1] : (tensor<2x2xf32>, tensor<4x2xf32>) -> tensor<2x4xf32>
    %z = autopar.binary add %y, %h : tensor<2x4xf32>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"adapters", "adapters", "std::string", "\"lora(rank=8)\"", "lora(rank=8, alpha=16)">,
    ListOption<"adapt", "adapt", "std::string", "patterns of the parameters that are adapted">,
    Option<"drawn", "drawn", "bool", "true", "they start by themselves; else who runs the program has to give them">,
  ];
}

def ChooseTrainablePass : Pass<"autopar-choose-trainable", "mlir::ModuleOp"> {
  let summary = "decide which parameters are trained";
  let description = [{
    Marks arguments of `@main` that come from an `autopar.origin` with `autopar.trainable`: the text
    "decay" where weight decay applies, else "no_decay". Runs directly after import, on the shapes of
    the model file. The rule: floats of more than one element, and single numbers that are the weight or bias of a product or
    convolution, are called `weight` or `bias` or that the source of the model trains (`autopar.source_trains`), except running statistics (names
    that end in running_mean or running_var), rotary tables (inv_freq, cos_cached, sin_cached), masks (attn_mask, attention_mask,
    masked_bias), what the model updates itself, and what has `autopar.fixed`, the reason why the source of the model does
    not train it. Patterns of names (`*` and `?`) change that: `freeze`
    takes parameters out, `train-only` takes all others out, and what it names in full is trained whatever the rule says.
    Where there are adapters (`autopar.adapter`), these are trained, and of the rest what `train-only` names.
    What an exporter computed goes by the names in `autopar.computed_from` too; with `autopar.fixed` beside it, it is open
    whether one of these is a parameter, and a pattern of `train-only` that says more than `*` decides. Weight decay applies to matrices and parameters with
    extents above 1 along two dimensions, that is, not to biases and the scales of normalizations, nor to what a pattern of
    `no-decay` names. One remark lists what is trained and what is not, and why.

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
    ListOption<"noDecay", "no-decay", "std::string", "patterns of parameters that are trained without weight decay">,
  ];
}

def MixedPrecisionPass : Pass<"autopar-mixed-precision", "mlir::ModuleOp"> {
  let summary = "compute a function of f32 in narrow floats where that gains";
  let description = [{
    Gives the values of the forward function `@main` a narrow element type (bf16, f16) as its operations
    say through `PrecisionOpInterface`: matrix products and convolutions read and yield narrow floats and sum in f32;
    what moves elements keeps their type; elementwise operations, softmax and normalization compute in f32 and their
    result is rounded; sums over many elements and logarithms of softmax stay f32. Arguments and results of the
    function keep their types: parameters are f32, each rounded by one cast. `autopar.precision` on the function
    tells autopar-build-training-step. For inference a norm with its scale and bias is rounded once, at its end; in
    training what the way back needs of it waits in memory, rounded.

    ```mlir
    %y = autopar.dot_general %x, %w contract [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    ```
    becomes
    ```mlir
    %n = autopar.cast %x : tensor<2x4xf32> -> tensor<2x4xbf16>
    %v = autopar.cast %w : tensor<4x4xf32> -> tensor<4x4xbf16>
    %y = autopar.dot_general %n, %v contract [1] x [0] : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"precision", "precision", "std::string", "\"f32\"", "f32, bf16, fp16 or fp8 (bf16, for autopar-scale-products)">,
    Option<"inference", "inference", "bool", "false", "nothing is differentiated: norms are rounded at their end alone">,
  ];
}

def ScaleProductsPass : Pass<"autopar-scale-products", "mlir::ModuleOp"> {
  let summary = "compute products with weights in floats of 8 bits";
  let description = [{
    Sets `scaled_to` of products of bf16 with a parameter whose rows and columns are multiples of 16. The last products on the way to
    a result stay, and those that only lead to a choice (top-k: the router of experts), and those with parameters whose
    names meet a pattern of `keep`. Runs behind autopar-mixed-precision. What autopar-build-training-step makes of these
    products yields gradients of what is multiplied with the weights in 8 bits, too; gradients of the weights themselves
    are summed of bf16.

    ```mlir
    %y = autopar.dot_general %x, %w contract [1] x [0] : (tensor<32x64xbf16>, tensor<64x16xbf16>) -> tensor<32x16xbf16>
    ```
    becomes
    ```mlir
    %y = autopar.dot_general %x, %w contract [1] x [0] scaled_to f8E4M3FN : (tensor<32x64xbf16>, tensor<64x16xbf16>) -> tensor<32x16xbf16>
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    ListOption<"keep", "keep", "std::string", "patterns of parameters whose products stay in bf16">,
  ];
}

def OffloadStatePass : Pass<"autopar-offload-state", "mlir::func::FuncOp"> {
  let summary = "put what only updates work on into host memory";
  let description = [{
    State that is read by updates alone, and parameters that everybody else reads through one rounding (under mixed
    precision), get `autopar.on_host`: they lie in host memory, and the program fetches and stores them around the
    instructions that work on them (autopar-stage-host-buffers). Scalars stay on the device.

    ```mlir
    func.func @main(%w: tensor<4x4xf32> {autopar.donated, autopar.name = "w"},
                    %m: tensor<4x4xf32> {autopar.donated, autopar.name = "w/momentum", autopar.on_host})
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
}

def BuildTrainingStepPass : Pass<"autopar-build-training-step", "mlir::ModuleOp"> {
  let summary = "turn a forward function into a training step";
  let description = [{
    Adds loss, derivatives, clipping and the optimizer's update to `@main`, which becomes a function of
    (parameters, batch, state, control) that returns (parameters, state, metrics). An argument that the
    step replaces has `autopar.donated`, and the result of the same `autopar.name` is its new value.
    State starts at zero. The learning rate and the number of the step (and of skipped ones, where the optimizer counts)
    are arguments with `autopar.control`, never constants. A metric with `autopar.guard` must be finite for the step to change anything;
    those with `autopar.evaluated` depend on nothing that the step changes. Backward operations are named after their forward operation: `fc/vjp.0` for its
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
            tensor<f32> {autopar.evaluated, autopar.guard, autopar.metric, autopar.name = "loss"}, tensor<f64> {autopar.metric, autopar.name = "learning_rate"})
    ```
  }];
  let dependentDialects = ["mlir::autopar::AutoParDialect"];
  let options = [
    Option<"loss", "loss", "std::string", "\"\"", "loss function, such as softmax_cross_entropy(logits,labels)">,
    Option<"metrics", "metrics", "std::string", "\"\"", "what else a step tells of its batch, such as accuracy(logits,labels)">,
    Option<"optimizer", "optimizer", "std::string", "\"sgd\"", "optimizer, such as adamw(lr=3e-4,weight_decay=0.1)">,
    Option<"schedule", "lr-schedule", "std::string", "\"\"", "learning-rate schedule, such as cosine(warmup=100,steps=2000)">,
    ListOption<"lrScale", "lr-scale", "std::string", "patterns of parameters, and what their learning rate is multiplied with: head*=10">,
    Option<"clipNorm", "clip-norm", "double", "0", "largest norm of all gradients together; 0 = any">,
    Option<"gradientType", "gradient-dtype", "std::string", "\"f32\"",
           "what products yield the gradients of parameters in, and ranks sum them in: f32, or the narrow precision of the function">,
    Option<"lossScale", "loss-scale", "std::string", "\"\"",
           "scale of the loss, such as dynamic(initial=65536,interval=2000); empty: none. A step whose gradients overflow changes nothing but the scale">,
  ];
}

#endif
