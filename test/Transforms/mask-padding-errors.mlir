// RUN: autopar-opt %s -split-input-file --autopar-mask-padding -verify-diagnostics

func.func @strided(%x: tensor<1x1x8xf32> {autopar.name = "x", autopar.varying = [{dim = 2, extent = "n", least = 2}]}, %w: tensor<1x1x2xf32> {autopar.name = "w"}) -> tensor<1x1x4xf32> {
  // expected-error@+1 {{'n' cannot vary: autopar.convolution strides by 2 along dimension 2, which varies by 1; bind a range with a step, as in width=64..640:32}}
  %0 = autopar.convolution %x, %w {autopar.id = "conv", filterDilation = array<i64: 1>, groups = 1 : i64, inputDilation = array<i64: 1>, padBegin = array<i64: 0>, padEnd = array<i64: 0>, strides = array<i64: 2>} : (tensor<1x1x8xf32>, tensor<1x1x2xf32>) -> tensor<1x1x4xf32>
  return %0 : tensor<1x1x4xf32>
}

// -----

func.func @part(%x: tensor<4x2xf32> {autopar.name = "x", autopar.varying = [{dim = 0, extent = "n", least = 1}]}) -> tensor<8xf32> {
  %0 = autopar.transpose %x permutation [1, 0] {autopar.id = "t"} : tensor<4x2xf32> -> tensor<2x4xf32>
  %1 = autopar.reshape %0 {autopar.id = "flat"} : tensor<2x4xf32> -> tensor<8xf32>
  // expected-error@+1 {{'n' cannot vary: autopar.cumulative needs to know where dimension 0 ends}}
  %2 = autopar.cumulative sum %1 dim 0 {autopar.id = "sum"} : tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

func.func @slower(%x: tensor<8xf32> {autopar.name = "x", autopar.varying = [{dim = 0, extent = "n", least = 2, step = 2}]}) -> tensor<2xf32> {
  // expected-error@+1 {{'n' cannot vary: autopar.slice moves slower along dimension 0 than it ends}}
  %0 = autopar.slice %x starts [6] steps [1] {autopar.id = "last", autopar.moves = [{dim = 0, extent = "n", times = 1}]} : tensor<8xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @both(%x: tensor<2x4xf32> {autopar.name = "x", autopar.varying = [{dim = 0, extent = "h", least = 1}, {dim = 1, extent = "w", least = 1}]}, %z: tensor<f32> {autopar.name = "z"}) -> tensor<8xf32> {
  %0 = autopar.broadcast %z dims [] {autopar.id = "all", autopar.varies = [{dim = 0, extent = "h", result = 0, times = 4}, {dim = 0, extent = "w", result = 0, times = 2}]} : tensor<f32> -> tensor<8xf32>
  // expected-error@+1 {{an extent cannot vary: nothing tells where dimension 0 of output 0 ends, which several extents decide}}
  return %0 : tensor<8xf32>
}

// -----

func.func @reversed(%x: tensor<8xf32> {autopar.name = "x", autopar.varying = [{dim = 0, extent = "n", least = 1}]}) -> tensor<8xf32> {
  // expected-error@+1 {{'n' cannot vary: autopar.slice takes positions of dimension 0 in another order, or in steps}}
  %0 = autopar.slice %x starts [7] steps [-1] {autopar.id = "back"} : tensor<8xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @beyond(%x: tensor<8xf32> {autopar.name = "x", autopar.varying = [{dim = 0, extent = "n", least = 2}]}) -> tensor<3xf32> {
  // expected-error@+1 {{'n' cannot vary: autopar.slice reads position 2 of dimension 0, and there are at least 2}}
  %0 = autopar.slice %x starts [0] steps [1] {autopar.id = "three"} : tensor<8xf32> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @joined(%x: tensor<8xf32> {autopar.name = "x", autopar.varying = [{dim = 0, extent = "n", least = 1}]}) -> tensor<16xf32> {
  // expected-error@+1 {{'n' cannot vary: autopar.concat puts something behind its end}}
  %0 = autopar.concat %x, %x dim 0 {autopar.id = "join"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

func.func @cut(%x: tensor<6x4xf32> {autopar.name = "x", autopar.varying = [{dim = 0, extent = "n", least = 1}]}) -> tensor<3x8xf32> {
  // expected-error@+1 {{'n' cannot vary: autopar.reshape cuts dimension 0 across it}}
  %0 = autopar.reshape %x {autopar.id = "pairs"} : tensor<6x4xf32> -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}
