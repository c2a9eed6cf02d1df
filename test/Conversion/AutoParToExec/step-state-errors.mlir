// RUN: autopar-opt %s --autopar-to-exec --split-input-file --verify-diagnostics

// expected-error @+1 {{donates "a" and returns no result of that name}}
func.func @main(%a: tensor<4xf32> {autopar.name = "a", autopar.donated}) -> (tensor<4xf32> {autopar.name = "y"}) {
  return %a : tensor<4xf32>
}

// -----

// expected-error @+1 {{returns "a" twice}}
func.func @main(%a: tensor<4xf32> {autopar.name = "a", autopar.donated}) -> (tensor<4xf32> {autopar.name = "a"}, tensor<4xf32> {autopar.name = "a"}) {
  return %a, %a : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @+1 {{result "a" is the next value of a donated argument and must have its type, 'tensor<4xf32>', got 'tensor<8xf32>'}}
func.func @main(%a: tensor<4xf32> {autopar.name = "a", autopar.donated}, %x: tensor<8xf32>) -> (tensor<8xf32> {autopar.name = "a"}) {
  return %x : tensor<8xf32>
}

// -----

// expected-error @+1 {{argument "t": expected the control word step, learning_rate, skipped_steps or evaluation, got "time"}}
func.func @main(%t: tensor<i64> {autopar.name = "t", autopar.control = "time"}) -> tensor<i64> {
  return %t : tensor<i64>
}

// -----

// expected-error @+1 {{argument "t": the control word "step" is 'i64', not 'tensor<f64>'}}
func.func @main(%t: tensor<f64> {autopar.name = "t", autopar.control = "step"}) -> tensor<f64> {
  return %t : tensor<f64>
}
