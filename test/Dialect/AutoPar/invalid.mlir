// RUN: autopar-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<2x3xi32>) -> tensor<2x3xi32> {
  // expected-error @+1 {{'autopar.unary' op expects floats, got 'i32'}}
  %0 = autopar.unary exp %x : tensor<2x3xi32>
  return %0 : tensor<2x3xi32>
}

// -----

func.func @f(%x: tensor<2x3xf32>, %w: tensor<4x5xf32>) -> tensor<2x5xf32> {
  // expected-error @+1 {{'autopar.dot_general' op contracted dimensions differ: 3 and 4}}
  %0 = autopar.dot_general %x, %w contract [1] x [0] : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

func.func @f(%x: tensor<2x3xf32>) -> tensor<7xf32> {
  // expected-error @+1 {{'autopar.reshape' op expects as many elements, got 'tensor<2x3xf32>' and 'tensor<7xf32>'}}
  %0 = autopar.reshape %x : tensor<2x3xf32> -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

func.func @f(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  // expected-error @+1 {{'autopar.slice' op positions 0 to 3 leave dimension 1 of extent 3}}
  %0 = autopar.slice %x starts [0, 0] steps [1, 1] : tensor<2x3xf32> -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// expected-error @+1 {{axis "t" appears more than once in a sharding}}
func.func @f(%x: tensor<4x4xf32> {autopar.sharding = #autopar.sharding<@m, [{"t"}, {"t"}]>}) {
  return
}

// -----

// expected-error @+1 {{argument 0: sharding of 1 dimensions on a tensor of 2}}
func.func @f(%x: tensor<4x4xf32> {autopar.sharding = #autopar.sharding<@m, [{"t"}]>}) {
  return
}

// -----

// expected-error @+1 {{'autopar.mesh' op axis "t" is declared twice}}
autopar.mesh @m ["t" = 2, "t" = 2]
