// RUN: autopar-opt %s --split-input-file --verify-diagnostics

func.func @main(%a: tensor<8x2x4x32xi8>, %s: tensor<8x4xf32>, %w: tensor<64x4x32xi8>, %t: tensor<4x4x16xf32>) {
  // expected-error @+1 {{'autopar.block_dot' op expects i8 [rows, parts, blocks, bytes] and ui8 [columns, blocks, bytes], got 'tensor<8x2x4x32xi8>' and 'tensor<64x4x32xi8>'}}
  %y = autopar.block_dot %a scales %s, %w scales %t : (tensor<8x2x4x32xi8>, tensor<8x4xf32>, tensor<64x4x32xi8>, tensor<4x4x16xf32>) -> tensor<8x64xf32>
  return
}

// -----

func.func @main(%a: tensor<8x2x4x32xi8>, %s: tensor<8x4xf32>, %w: tensor<64x8x16xui8>, %t: tensor<4x8x16xf32>) {
  // expected-error @+1 {{'autopar.block_dot' op expects blocks of as many bytes on both sides, got 'tensor<8x2x4x32xi8>' and 'tensor<64x8x16xui8>'}}
  %y = autopar.block_dot %a scales %s, %w scales %t : (tensor<8x2x4x32xi8>, tensor<8x4xf32>, tensor<64x8x16xui8>, tensor<4x8x16xf32>) -> tensor<8x64xf32>
  return
}

// -----

func.func @main(%a: tensor<8x3x4x32xi8>, %s: tensor<8x4xf32>, %w: tensor<64x4x32xui8>, %t: tensor<4x4x16xf32>) {
  // expected-error @+1 {{'autopar.block_dot' op expects 1, 2 or 4 numbers in each byte of the weights, got 3}}
  %y = autopar.block_dot %a scales %s, %w scales %t : (tensor<8x3x4x32xi8>, tensor<8x4xf32>, tensor<64x4x32xui8>, tensor<4x4x16xf32>) -> tensor<8x64xf32>
  return
}

// -----

func.func @main(%a: tensor<8x2x4x32xi8>, %s: tensor<8x4xf32>, %w: tensor<72x4x32xui8>, %t: tensor<4x4x16xf32>) {
  // expected-error @+1 {{'autopar.block_dot' op expects columns in 16s, of 16s of bytes, in blocks of a power of two up to 512 numbers, got 'tensor<72x4x32xui8>'}}
  %y = autopar.block_dot %a scales %s, %w scales %t : (tensor<8x2x4x32xi8>, tensor<8x4xf32>, tensor<72x4x32xui8>, tensor<4x4x16xf32>) -> tensor<8x72xf32>
  return
}

// -----

func.func @main(%a: tensor<8x2x4x32xi8>, %s: tensor<8xf32>, %w: tensor<64x4x32xui8>, %t: tensor<4x4x16xf32>) {
  // expected-error @+1 {{'autopar.block_dot' op expects scales of rows of f32 [8, 4], got 'tensor<8xf32>'}}
  %y = autopar.block_dot %a scales %s, %w scales %t : (tensor<8x2x4x32xi8>, tensor<8xf32>, tensor<64x4x32xui8>, tensor<4x4x16xf32>) -> tensor<8x64xf32>
  return
}

// -----

func.func @main(%a: tensor<8x2x4x32xi8>, %s: tensor<8x4xf32>, %w: tensor<64x4x32xui8>, %t: tensor<4x64xf32>) {
  // expected-error @+1 {{'autopar.block_dot' op expects scales of weights of f32 [4, 4, 16], got 'tensor<4x64xf32>'}}
  %y = autopar.block_dot %a scales %s, %w scales %t : (tensor<8x2x4x32xi8>, tensor<8x4xf32>, tensor<64x4x32xui8>, tensor<4x64xf32>) -> tensor<8x64xf32>
  return
}

// -----

func.func @main(%a: tensor<8x2x4x32xi8>, %s: tensor<8x4xf32>, %w: tensor<64x4x32xui8>, %t: tensor<4x4x16xf32>) {
  // expected-error @+1 {{'autopar.block_dot' op expects a result of f32 [8, 64], got 'tensor<64x8xf32>'}}
  %y = autopar.block_dot %a scales %s, %w scales %t : (tensor<8x2x4x32xi8>, tensor<8x4xf32>, tensor<64x4x32xui8>, tensor<4x4x16xf32>) -> tensor<64x8xf32>
  return
}

// -----

func.func @main(%a: tensor<8x2x4x32xi8>, %s: tensor<8x4xf32>, %w: tensor<64x4x32xui8>, %t: tensor<4x4x16xf32>, %z: tensor<4x64xui8>) {
  // expected-error @+1 {{'autopar.block_dot' op expects zero points of f32 or ui8, one or [4, 4, 16], or 2 in a byte, got 'tensor<4x64xui8>'}}
  %y = autopar.block_dot %a scales %s, %w scales %t zeros %z sums %s : (tensor<8x2x4x32xi8>, tensor<8x4xf32>, tensor<64x4x32xui8>, tensor<4x4x16xf32>, tensor<4x64xui8>, tensor<8x4xf32>) -> tensor<8x64xf32>
  return
}

// -----

func.func @main(%a: tensor<8x2x4x32xi8>, %s: tensor<8x4xf32>, %w: tensor<64x4x32xui8>, %t: tensor<4x4x16xf32>, %z: tensor<4x2x16xui8>, %u: tensor<8xf32>) {
  // expected-error @+1 {{'autopar.block_dot' op expects sums of rows of f32 [8, 4], got 'tensor<8xf32>'}}
  %y = autopar.block_dot %a scales %s, %w scales %t zeros %z sums %u : (tensor<8x2x4x32xi8>, tensor<8x4xf32>, tensor<64x4x32xui8>, tensor<4x4x16xf32>, tensor<4x2x16xui8>, tensor<8xf32>) -> tensor<8x64xf32>
  return
}
