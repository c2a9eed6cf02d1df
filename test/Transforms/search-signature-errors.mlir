// RUN: autopar-opt %s --split-input-file --verify-diagnostics --autopar-search=cluster=presets:cpux2
// RUN: autopar-opt %s --split-input-file --verify-diagnostics --autopar-split-micro-batches=count=2
// RUN: autopar-opt %s --split-input-file --verify-diagnostics --autopar-to-exec

// What no program can have is refused by whoever is asked first.

// expected-error @+1 {{expected static tensors as arguments and results, got 'tensor<?xf32>'}}
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

// expected-error @+1 {{expected static tensors as arguments and results, got 'tensor<*xf32>'}}
func.func @main(%x: tensor<*xf32>) -> tensor<*xf32> {
  return %x : tensor<*xf32>
}

// -----

// expected-error @+1 {{expected arguments and results with elements of i1, i8, i16, i32, i64, ui8, ui16, ui32, ui64, f16, bf16, f32, f64, f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ or f4E2M1FN, got 'tensor<4xcomplex<f32>>'}}
func.func @main(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  return %x : tensor<4xcomplex<f32>>
}

// -----

// expected-error @+1 {{expected arguments and results with elements of i1, i8, i16, i32, i64, ui8, ui16, ui32, ui64, f16, bf16, f32, f64, f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ or f4E2M1FN, got 'tensor<4xf128>'}}
func.func @main(%x: tensor<4xf128>) -> tensor<4xf128> {
  return %x : tensor<4xf128>
}

// -----

// expected-error @+1 {{expected tensors of less than 2^63 bytes, got 'tensor<4611686018427387904x4xf32>'}}
func.func @main(%x: tensor<4611686018427387904x4xf32>) -> tensor<4611686018427387904x4xf32> {
  return %x : tensor<4611686018427387904x4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expected tensors with elements of i1, i8, i16, i32, i64, ui8, ui16, ui32, ui64, f16, bf16, f32, f64, f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ or f4E2M1FN, got 'tensor<4xindex>'}}
  %0 = tensor.empty() : tensor<4xindex>
  return %x : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>, %n: tensor<1xi64>) -> tensor<4xf32> {
  // expected-error @+1 {{expected tensors of static shape, got 'tensor<?xf32>'}}
  %0 = tensor.reshape %x(%n) : (tensor<4xf32>, tensor<1xi64>) -> tensor<?xf32>
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{result "w" is the next value of a donated argument and must have its type, 'tensor<4x8xf32>', got 'tensor<4xf32>'}}
func.func @main(%w: tensor<4x8xf32> {autopar.donated, autopar.name = "w"}) -> (tensor<4xf32> {autopar.name = "w"}) {
  %0 = autopar.reduce sum %w dims [1] {autopar.id = "a"} : tensor<4x8xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
