// RUN: autopar-opt %s --split-input-file --verify-diagnostics

func.func @main() {
  // expected-error @+1 {{expected a number of rounds and of micro-batches, got 0 and 1}}
  autopar.round_begin 0 step 1
  return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected results of the types of the operands, ('tensor<4xf32>'), got ('tensor<8xf32>')}}
  %y = autopar.round_begin 2 step 1 from %x : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @main() {
  // expected-error @+1 {{expected an autopar.round_begin before it}}
  autopar.round_end
  return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  %y = autopar.round_begin 2 step 1 from %x : tensor<4xf32> -> tensor<4xf32>
  // expected-error @+1 {{hands on (); expected what rounds begin with, ('tensor<4xf32>')}}
  autopar.round_end
  return
}

// -----

func.func @main(%x: tensor<4x8xf32>) -> tensor<1x4xf32> {
  // expected-error @+1 {{expected one position of the first dimension of 'tensor<4x8xf32>', got 'tensor<1x4xf32>'}}
  %y = autopar.round_slice %x at 0 : tensor<4x8xf32> -> tensor<1x4xf32>
  return %y : tensor<1x4xf32>
}

// -----

func.func @main(%x: tensor<4x8xf32>) -> tensor<1x8xf32> {
  // expected-error @+1 {{begins at position 4 of 'tensor<4x8xf32>'}}
  %y = autopar.round_slice %x at 4 : tensor<4x8xf32> -> tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{expected a part of 'tensor<4x8xf32>' and one more of the whole, got 'tensor<4xf32>'}}
  %y = autopar.insert_part %x at 0 : tensor<4xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

func.func @main(%x: tensor<8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{puts it at position 5 of 'tensor<4x8xf32>'}}
  %y = autopar.insert_part %x at 5 : tensor<8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
