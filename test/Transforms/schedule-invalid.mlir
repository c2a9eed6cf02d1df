// RUN: autopar-opt %s --split-input-file --verify-diagnostics --autopar-schedule

func.func @main(%x: tensor<4xf32> {autopar.stage = 0 : i64}, %y: tensor<4xf32> {autopar.stage = 1 : i64}) -> tensor<4xf32> {
  // expected-error @+1 {{reads values of stages 0 and 1; expected an autopar.transfer between them}}
  %0 = autopar.binary add %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{there is no schedule 'zigzag'; there are gpipe, 1f1b, eager-1f1b, interleaved, zero-bubble, interleaved-zero-bubble, overlapped-1f1b, overlapped-interleaved}}
func.func @main(%x: tensor<4xf32> {autopar.stage = 0 : i64}) -> tensor<4xf32> attributes {autopar.schedule = "zigzag", autopar.stage_meshes = 2 : i64} {
  %0 = autopar.transfer %x to 1 : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A micro-batch goes through the stages once.
func.func @main(%all: tensor<2x4xf32>, %w: tensor<4xf32> {autopar.stage = 1 : i64}, %v: tensor<4xf32> {autopar.stage = 0 : i64}) -> tensor<2x4xf32>
    attributes {autopar.schedule = "1f1b", autopar.stage_meshes = 2 : i64} {
  %x = autopar.micro_batch %all : tensor<2x4xf32> -> tensor<4xf32>
  %0 = autopar.binary mul %x, %w {autopar.id = "far"} : tensor<4xf32>
  %1 = autopar.transfer %0 to 0 : tensor<4xf32>
  // expected-error @+1 {{"back" reads "far" of stage 1 in stage 0 in the forward pass of a micro-batch, which goes from the first stage to the last; expected both on one stage, or the reader on the one that is later in that pass}}
  %2 = autopar.binary mul %1, %v {autopar.id = "back"} : tensor<4xf32>
  %3 = autopar.stack_micro_batches %2 : tensor<4xf32> -> tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}

// -----

// Its gradients go back.
func.func @main(%all: tensor<2x4xf32>, %w: tensor<4xf32> {autopar.stage = 0 : i64}, %v: tensor<4xf32> {autopar.stage = 1 : i64}) -> tensor<2x4xf32>
    attributes {autopar.schedule = "1f1b", autopar.stage_meshes = 2 : i64} {
  %x = autopar.micro_batch %all : tensor<2x4xf32> -> tensor<4xf32>
  %0 = autopar.binary mul %x, %w {autopar.id = "near/vjp.again"} : tensor<4xf32>
  %1 = autopar.transfer %0 to 1 : tensor<4xf32>
  // expected-error @+1 {{"far/vjp.0" reads "near/vjp.again" of stage 0 in stage 1 in the backward pass of a micro-batch, which goes from the last stage to the first; expected both on one stage, or the reader on the one that is later in that pass}}
  %2 = autopar.binary mul %1, %v {autopar.id = "far/vjp.0"} : tensor<4xf32>
  %3 = autopar.stack_micro_batches %2 : tensor<4xf32> -> tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}

// -----

// Nobody waits for what has to be received before it could be sent.
func.func @main(%x: tensor<4xf32> {autopar.stage = 0 : i64}) -> tensor<4xf32> attributes {autopar.schedule = "1f1b", autopar.stage_meshes = 3 : i64} {
  %0 = autopar.unary neg %x : tensor<4xf32>
  %1 = autopar.transfer %0 to 1 : tensor<4xf32>
  // expected-error @+1 {{sends on what stage 1 was sent; expected a transfer of the value from the stage that makes it}}
  %2 = autopar.transfer %1 to 2 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

func.func @main(%all: tensor<2x4xf32>) -> tensor<4xf32> {
  %x = autopar.micro_batch %all : tensor<2x4xf32> -> tensor<4xf32>
  // expected-error @+1 {{expected one autopar.carry of number 0 and type 'tensor<4xf32>'}}
  %s = autopar.carried sum 0 : tensor<4xf32>
  %a = autopar.binary add %s, %x : tensor<4xf32>
  %c = autopar.carry 1 %a : tensor<4xf32>
  return %c : tensor<4xf32>
}

// -----

func.func @main(%all: tensor<2x4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %x = autopar.micro_batch %all : tensor<2x4xf32> -> tensor<4xf32>
  %s = autopar.carried sum 0 : tensor<4xf32>
  %a = autopar.binary add %s, %x : tensor<4xf32>
  // expected-note @+1 {{the first one is here}}
  %c = autopar.carry 0 %a : tensor<4xf32>
  // expected-error @+1 {{hands on number 0 again}}
  %d = autopar.carry 0 %x : tensor<4xf32>
  return %c, %d : tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @main(%all: tensor<2x4xf32>) -> tensor<f32> {
  %x = autopar.micro_batch %all : tensor<2x4xf32> -> tensor<4xf32>
  // expected-error @+1 {{expected one autopar.carry of number 0 and type 'tensor<4xf32>'}}
  %s = autopar.carried sum 0 : tensor<4xf32>
  %a = autopar.binary add %s, %x : tensor<4xf32>
  %r = autopar.reduce sum %a dims [0] : tensor<4xf32> -> tensor<f32>
  %c = autopar.carry 0 %r : tensor<f32>
  return %c : tensor<f32>
}

// -----

func.func @main(%all: tensor<2x4xf32>, %w: tensor<4xf32> {autopar.stage = 0 : i64}) -> tensor<4xf32>
    attributes {autopar.schedule = "1f1b", autopar.stage_meshes = 2 : i64} {
  %x = autopar.micro_batch %all : tensor<2x4xf32> -> tensor<4xf32>
  // expected-error @+1 {{is read on stage 0, but handed on by stage 1}}
  %s = autopar.carried sum 0 : tensor<4xf32>
  %0 = autopar.binary mul %x, %w : tensor<4xf32>
  %a = autopar.binary add %s, %0 : tensor<4xf32>
  %1 = autopar.transfer %a to 1 : tensor<4xf32>
  %c = autopar.carry 0 %1 : tensor<4xf32>
  return %c : tensor<4xf32>
}

// -----

// A step has one of each result.
func.func @main(%all: tensor<2x4xf32>, %w: tensor<4xf32> {autopar.stage = 1 : i64}) -> tensor<4xf32>
    attributes {autopar.schedule = "1f1b", autopar.stage_meshes = 2 : i64} {
  %x = autopar.micro_batch %all : tensor<2x4xf32> -> tensor<4xf32>
  // expected-error @+1 {{gives result 0 anew in every micro-batch; expected an operation that puts them together, such as autopar.stack_micro_batches}}
  %0 = autopar.binary mul %x, %w : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A transfer with shardings needs the meshes that they are on.
autopar.mesh @m0 ["x" = 1]
func.func @main(%x: tensor<4xf32> {autopar.stage = 0 : i64}) -> tensor<2xf32> attributes {autopar.schedule = "1f1b", autopar.stage_meshes = 2 : i64} {
  %0 = autopar.unary neg %x : tensor<4xf32>
  // expected-error @+1 {{has shardings on 2 meshes, of which the module declares 1; expected an autopar.mesh for each of them}}
  %1 = autopar.transfer %0 to 1 {from = #autopar.sharding<@m0, [{}]>, to = #autopar.sharding<@m1, [{"x"}]>} : tensor<4xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
