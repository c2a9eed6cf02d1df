// RUN: autopar-opt %s --split-input-file --verify-diagnostics

func.func @main(%x: tensor<8x12xbf16>, %w: tensor<2x12x8xbf16>, %o: tensor<256xi32>, %t: tensor<2xi32>) {
  // expected-error @+1 {{'autopar.grouped_dot_tiles' op expects rows of a multiple of 8 elements of f16 or bf16, got 'tensor<8x12xbf16>'}}
  %r = autopar.grouped_dot_tiles %x, %w, %o, %t : (tensor<8x12xbf16>, tensor<2x12x8xbf16>, tensor<256xi32>, tensor<2xi32>) -> tensor<8x8xbf16>
  return
}

// -----

func.func @main(%x: tensor<8x16xf32>, %w: tensor<2x16x8xf32>, %o: tensor<256xi32>, %t: tensor<2xi32>) {
  // expected-error @+1 {{'autopar.grouped_dot_tiles' op expects rows of a multiple of 8 elements of f16 or bf16, got 'tensor<8x16xf32>'}}
  %r = autopar.grouped_dot_tiles %x, %w, %o, %t : (tensor<8x16xf32>, tensor<2x16x8xf32>, tensor<256xi32>, tensor<2xi32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @main(%x: tensor<8x16xbf16>, %w: tensor<2x16x8xbf16>, %o: tensor<256xi32>, %t: tensor<2xi32>) {
  // expected-error @+1 {{'autopar.grouped_dot_tiles' op expects rhs to be a matrix for each group, got 'tensor<2x16x8xbf16>' for 'tensor<8x16xbf16>'}}
  %r = autopar.grouped_dot_tiles %x, %w, %o, %t transposed : (tensor<8x16xbf16>, tensor<2x16x8xbf16>, tensor<256xi32>, tensor<2xi32>) -> tensor<8x8xbf16>
  return
}

// -----

func.func @main(%x: tensor<8x16xbf16>, %w: tensor<2x16x8xbf16>, %o: tensor<256xi32>, %t: tensor<2xi32>) {
  // expected-error @+1 {{'autopar.grouped_dot_tiles' op expects result shape [8, 8], got 'tensor<8x16xbf16>'}}
  %r = autopar.grouped_dot_tiles %x, %w, %o, %t : (tensor<8x16xbf16>, tensor<2x16x8xbf16>, tensor<256xi32>, tensor<2xi32>) -> tensor<8x16xbf16>
  return
}

// -----

func.func @main(%x: tensor<8x16xbf16>, %w: tensor<2x3x16xbf16>, %o: tensor<256xi32>, %t: tensor<2xi32>) {
  // expected-error @+1 {{'autopar.grouped_dot_tiles' op expects a result in rows of a multiple of 8 elements, got 'tensor<8x3xbf16>'}}
  %r = autopar.grouped_dot_tiles %x, %w, %o, %t transposed : (tensor<8x16xbf16>, tensor<2x3x16xbf16>, tensor<256xi32>, tensor<2xi32>) -> tensor<8x3xbf16>
  return
}

// -----

func.func @main(%x: tensor<8x16xbf16>, %w: tensor<2x16x8xbf16>, %o: tensor<128xi32>, %t: tensor<2xi32>) {
  // expected-error @+1 {{'autopar.grouped_dot_tiles' op expects 128 numbers of rows in order for each tile, got 'tensor<128xi32>'}}
  %r = autopar.grouped_dot_tiles %x, %w, %o, %t : (tensor<8x16xbf16>, tensor<2x16x8xbf16>, tensor<128xi32>, tensor<2xi32>) -> tensor<8x8xbf16>
  return
}

// -----

func.func @main(%x: tensor<8x16xbf16>, %w: tensor<2x16x8xbf16>, %o: tensor<256xi32>, %t: tensor<2x1xi32>) {
  // expected-error @+1 {{'autopar.grouped_dot_tiles' op expects a group for each tile, got 'tensor<2x1xi32>'}}
  %r = autopar.grouped_dot_tiles %x, %w, %o, %t : (tensor<8x16xbf16>, tensor<2x16x8xbf16>, tensor<256xi32>, tensor<2x1xi32>) -> tensor<8x8xbf16>
  return
}

// -----

func.func @main(%x: tensor<8x16xbf16>, %d: tensor<8x8xbf16>, %o: tensor<256xi32>, %t: tensor<3xi32>) {
  // expected-error @+1 {{'autopar.grouped_dot_rhs_grad_tiles' op expects result shape [2, 16, 8], got 'tensor<2x8x16xbf16>'}}
  %r = autopar.grouped_dot_rhs_grad_tiles %x, %d, %o, %t : (tensor<8x16xbf16>, tensor<8x8xbf16>, tensor<256xi32>, tensor<3xi32>) -> tensor<2x8x16xbf16>
  return
}

// -----

func.func @main(%x: tensor<8x16xbf16>, %d: tensor<8x8xbf16>, %o: tensor<256xi32>, %t: tensor<3xi32>) {
  // expected-error @+1 {{'autopar.grouped_dot_rhs_grad_tiles' op expects the first tile of each group and the end, got 'tensor<3xi32>'}}
  %r = autopar.grouped_dot_rhs_grad_tiles %x, %d, %o, %t : (tensor<8x16xbf16>, tensor<8x8xbf16>, tensor<256xi32>, tensor<3xi32>) -> tensor<3x16x8xbf16>
  return
}

// -----

func.func @main(%x: tensor<8x16xbf16>, %d: tensor<6x8xbf16>, %o: tensor<256xi32>, %t: tensor<3xi32>) {
  // expected-error @+1 {{'autopar.grouped_dot_rhs_grad_tiles' op expects as many rows in lhs and gradient, got 'tensor<8x16xbf16>' and 'tensor<6x8xbf16>'}}
  %r = autopar.grouped_dot_rhs_grad_tiles %x, %d, %o, %t : (tensor<8x16xbf16>, tensor<6x8xbf16>, tensor<256xi32>, tensor<3xi32>) -> tensor<2x16x8xbf16>
  return
}
