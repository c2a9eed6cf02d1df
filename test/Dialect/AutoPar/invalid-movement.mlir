// RUN: autopar-opt %s --split-input-file --verify-diagnostics

// What operations that move elements must not be.

func.func @f(%0: tensor<2xf32>) {
  // expected-error @+1 {{'autopar.broadcast' op expects one element type, got 'tensor<2xf32>' and 'tensor<3x2xi32>'}}
  %r = autopar.broadcast %0 dims [1] : tensor<2xf32> -> tensor<3x2xi32>
  return
}

// -----

func.func @f(%0: tensor<2xf32>) {
  // expected-error @+1 {{'autopar.broadcast' op expects one entry in dims per operand dimension, got 2}}
  %r = autopar.broadcast %0 dims [0, 1] : tensor<2xf32> -> tensor<2x2xf32>
  return
}

// -----

func.func @f(%0: tensor<2x2xf32>) {
  // expected-error @+1 {{'autopar.broadcast' op expects ascending dims within the result}}
  %r = autopar.broadcast %0 dims [1, 0] : tensor<2x2xf32> -> tensor<2x2xf32>
  return
}

// -----

func.func @f(%0: tensor<2xf32>) {
  // expected-error @+1 {{'autopar.broadcast' op operand dimension 0 of extent 2 does not fit result extent 3}}
  %r = autopar.broadcast %0 dims [0] : tensor<2xf32> -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.slice' op expects one start and step per dimension}}
  %r = autopar.slice %0 starts [0, 0] steps [1] : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.slice' op expects steps other than zero}}
  %r = autopar.slice %0 starts [0] steps [0] : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%0: tensor<4xf32>, %1: tensor<1xf32>) {
  // expected-error @+1 {{'autopar.pad' op expects a scalar pad value}}
  %r = autopar.pad %0, %1 low [0] : (tensor<4xf32>, tensor<1xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @f(%0: tensor<4xf32>, %1: tensor<f32>) {
  // expected-error @+1 {{'autopar.pad' op expects one entry in low per dimension}}
  %r = autopar.pad %0, %1 low [0, 0] : (tensor<4xf32>, tensor<f32>) -> tensor<5xf32>
  return
}

// -----

func.func @f(%0: tensor<4xf32>, %1: tensor<f32>) {
  // expected-error @+1 {{'autopar.pad' op input does not fit into dimension 0 of the result}}
  %r = autopar.pad %0, %1 low [2] : (tensor<4xf32>, tensor<f32>) -> tensor<5xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'autopar.concat' op expects at least one operand}}
  %r = "autopar.concat"() {dim = 0 : i64} : () -> tensor<4xf32>
  return
}

// -----

func.func @f(%0: tensor<4xf32>) {
  // expected-error @+1 {{'autopar.concat' op dimension 1 is out of range for 'tensor<4xf32>'}}
  %r = autopar.concat %0 dim 1 : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>) {
  // expected-error @+1 {{'autopar.concat' op expects operands and result of one rank}}
  %r = autopar.concat %0 dim 0 : (tensor<4x2xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>) {
  // expected-error @+1 {{'autopar.concat' op operand 'tensor<4x2xf32>' does not fit result 'tensor<4x3xf32>'}}
  %r = autopar.concat %0 dim 0 : (tensor<4x2xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>) {
  // expected-error @+1 {{'autopar.concat' op expects extent 8 along dimension 0, got 'tensor<7x2xf32>'}}
  %r = autopar.concat %0, %0 dim 0 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<7x2xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>, %1: tensor<i64>) {
  // expected-error @+1 {{'autopar.dynamic_slice' op expects one start per dimension}}
  %r = autopar.dynamic_slice %0[%1] : (tensor<4x2xf32>, tensor<i64>) -> tensor<2x2xf32>
  return
}

// -----

func.func @f(%0: tensor<4xf32>, %1: tensor<i32>) {
  // expected-error @+1 {{'autopar.dynamic_slice' op expects starts to be i64 scalars}}
  %r = autopar.dynamic_slice %0[%1] : (tensor<4xf32>, tensor<i32>) -> tensor<2xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>, %1: tensor<3x1xi64>) {
  // expected-error @+1 {{'autopar.gather' op expects consecutive dims of the input behind its batch dimensions}}
  %r = autopar.gather %0, %1 dims [2] batch 0 : (tensor<4x2xf32>, tensor<3x1xi64>) -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>, %1: tensor<3x2xi64>) {
  // expected-error @+1 {{'autopar.gather' op expects indices [batch, ..., 1], got 'tensor<3x2xi64>'}}
  %r = autopar.gather %0, %1 dims [0] batch 0 : (tensor<4x2xf32>, tensor<3x2xi64>) -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>, %1: tensor<3x1xi64>) {
  // expected-error @+1 {{'autopar.gather' op batch dimension 0 differs: 'tensor<4x2xf32>' and 'tensor<3x1xi64>'}}
  %r = autopar.gather %0, %1 dims [1] batch 1 : (tensor<4x2xf32>, tensor<3x1xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>, %1: tensor<3x1xi64>) {
  // expected-error @+1 {{'autopar.gather' op expects result shape [3, 2], got 'tensor<3x4xf32>'}}
  %r = autopar.gather %0, %1 dims [0] batch 0 : (tensor<4x2xf32>, tensor<3x1xi64>) -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>, %1: tensor<3xi64>) {
  // expected-error @+1 {{'autopar.gather_elements' op expects indices of the input's rank, a result of the indices' shape, and a dimension within}}
  %r = autopar.gather_elements %0, %1 dim 0 : (tensor<4x2xf32>, tensor<3xi64>) -> tensor<3xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>, %1: tensor<3x3xi64>) {
  // expected-error @+1 {{'autopar.gather_elements' op indices exceed the input in dimension 1}}
  %r = autopar.gather_elements %0, %1 dim 0 : (tensor<4x2xf32>, tensor<3x3xi64>) -> tensor<3x3xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>, %1: tensor<3x1xi64>, %2: tensor<3x2xf32>) {
  // expected-error @+1 {{'autopar.scatter' op expects the result to have the input's type}}
  %r = autopar.scatter add %0, %1, %2 : (tensor<4x2xf32>, tensor<3x1xi64>, tensor<3x2xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>, %1: tensor<3x3xi64>, %2: tensor<3x2xf32>) {
  // expected-error @+1 {{'autopar.scatter' op expects indices [..., k] with k at most 2}}
  %r = autopar.scatter add %0, %1, %2 : (tensor<4x2xf32>, tensor<3x3xi64>, tensor<3x2xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>, %1: tensor<3x1xi64>, %2: tensor<3x3xf32>) {
  // expected-error @+1 {{'autopar.scatter' op expects 0 to 2 batch dimensions, got 3}}
  %r = autopar.scatter add %0, %1, %2 batch 3 : (tensor<4x2xf32>, tensor<3x1xi64>, tensor<3x3xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>, %1: tensor<3x1xi64>, %2: tensor<3x3xf32>) {
  // expected-error @+1 {{'autopar.scatter' op batch dimension 0 differs: 'tensor<4x2xf32>' and 'tensor<3x1xi64>'}}
  %r = autopar.scatter add %0, %1, %2 batch 1 : (tensor<4x2xf32>, tensor<3x1xi64>, tensor<3x3xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>, %1: tensor<3x1xi64>, %2: tensor<3x3xf32>) {
  // expected-error @+1 {{'autopar.scatter' op expects updates of shape [3, 2], got 'tensor<3x3xf32>'}}
  %r = autopar.scatter add %0, %1, %2 : (tensor<4x2xf32>, tensor<3x1xi64>, tensor<3x3xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>, %1: tensor<3x2xi64>, %2: tensor<3x1xf32>) {
  // expected-error @+1 {{'autopar.scatter_elements' op expects indices and updates of one shape and of the input's rank}}
  %r = autopar.scatter_elements add %0, %1, %2 dim 0 : (tensor<4x2xf32>, tensor<3x2xi64>, tensor<3x1xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%0: tensor<4x2xf32>, %1: tensor<3x3xi64>, %2: tensor<3x3xf32>) {
  // expected-error @+1 {{'autopar.scatter_elements' op indices exceed the input in dimension 1}}
  %r = autopar.scatter_elements add %0, %1, %2 dim 0 : (tensor<4x2xf32>, tensor<3x3xi64>, tensor<3x3xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%0: tensor<2x3xf32>) {
  // expected-error @+1 {{'autopar.transpose' op expects a permutation of 2 dimensions}}
  %r = autopar.transpose %0 permutation [0, 0] : tensor<2x3xf32> -> tensor<2x2xf32>
  return
}

// -----

func.func @f(%0: tensor<2x3xf32>, %1: tensor<2x1xi64>) {
  // expected-error @+1 {{'autopar.gather' op expects no or a positive number of batch dimensions, got -9223372036854775808}}
  %r = autopar.gather %0, %1 dims [0] batch -9223372036854775808 : (tensor<2x3xf32>, tensor<2x1xi64>) -> tensor<2x3xf32>
  return
}
