// RUN: autopar-opt %s -split-input-file --autopar-mask-padding -verify-diagnostics

func.func @normalized(%x: tensor<4x8xf32> {autopar.name = "x", autopar.varying = [{dim = 1, extent = "n", least = 1}]}) -> tensor<4x8xf32> {
  // expected-error@+1 {{'n' cannot vary: autopar.normalize needs to know where dimension 1 ends}}
  %0 = autopar.normalize %x dims [1] epsilon 1.0e-05 {autopar.id = "norm"} : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
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
