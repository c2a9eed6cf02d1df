// RUN: autopar-opt %s --autopar-raise-composites --split-input-file | FileCheck %s

// Layer normalization as operator set 16 writes it.
// CHECK-LABEL: func.func @layer_norm
// CHECK-NEXT: %[[Y:.*]] = autopar.normalize %{{.*}} dims [2] epsilon 9.99{{.*}}E-6 {autopar.id = "ln/Div"} : tensor<2x4x6xf32>
// CHECK-NEXT: return %[[Y]]
func.func @layer_norm(%x: tensor<2x4x6xf32>) -> tensor<2x4x6xf32> {
  %n = autopar.constant dense<6.0> : tensor<f32>
  %two = autopar.constant dense<2.0> : tensor<f32>
  %eps = autopar.constant dense<1.0e-5> : tensor<f32>
  %n3 = autopar.broadcast %n dims [] : tensor<f32> -> tensor<2x4x1xf32>
  %s0 = autopar.reduce sum %x dims [2] {autopar.id = "ln/ReduceMean"} : tensor<2x4x6xf32> -> tensor<2x4xf32>
  %s1 = autopar.reshape %s0 : tensor<2x4xf32> -> tensor<2x4x1xf32>
  %mean = autopar.binary div %s1, %n3 : tensor<2x4x1xf32>
  %wide = autopar.broadcast %mean dims [0, 1, 2] : tensor<2x4x1xf32> -> tensor<2x4x6xf32>
  %c = autopar.binary sub %x, %wide : tensor<2x4x6xf32>
  %twos = autopar.broadcast %two dims [] : tensor<f32> -> tensor<2x4x6xf32>
  %sq = autopar.binary pow %c, %twos : tensor<2x4x6xf32>
  %v0 = autopar.reduce sum %sq dims [2] : tensor<2x4x6xf32> -> tensor<2x4xf32>
  %v1 = autopar.reshape %v0 : tensor<2x4xf32> -> tensor<2x4x1xf32>
  %var = autopar.binary div %v1, %n3 : tensor<2x4x1xf32>
  %epss = autopar.broadcast %eps dims [] : tensor<f32> -> tensor<2x4x1xf32>
  %ve = autopar.binary add %var, %epss : tensor<2x4x1xf32>
  %dev = autopar.unary sqrt %ve : tensor<2x4x1xf32>
  %devs = autopar.broadcast %dev dims [0, 1, 2] : tensor<2x4x1xf32> -> tensor<2x4x6xf32>
  %y = autopar.binary div %c, %devs {autopar.id = "ln/Div"} : tensor<2x4x6xf32>
  return %y : tensor<2x4x6xf32>
}

// -----

// The mean may be used elsewhere, other values on the way not.
// CHECK-LABEL: func.func @shared_mean
// CHECK: autopar.reduce sum
// CHECK: autopar.normalize
// CHECK-LABEL: func.func @shared_deviation
// CHECK-NOT: autopar.normalize
// CHECK-LABEL: func.func @unequal_count
// CHECK-NOT: autopar.normalize
// CHECK-LABEL: func.func @wrong_rows
// CHECK-NOT: autopar.normalize
func.func @shared_mean(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) {
  %q = autopar.constant dense<0.25> : tensor<4xf32>
  %s = autopar.reduce sum %x dims [1] : tensor<4x4xf32> -> tensor<4xf32>
  %mean = autopar.binary mul %s, %q : tensor<4xf32>
  %wide = autopar.broadcast %mean dims [0] : tensor<4xf32> -> tensor<4x4xf32>
  %c = autopar.binary sub %x, %wide : tensor<4x4xf32>
  %sq = autopar.binary mul %c, %c : tensor<4x4xf32>
  %vs = autopar.reduce sum %sq dims [1] : tensor<4x4xf32> -> tensor<4xf32>
  %var = autopar.binary mul %vs, %q : tensor<4xf32>
  %r = autopar.unary rsqrt %var : tensor<4xf32>
  %rs = autopar.broadcast %r dims [0] : tensor<4xf32> -> tensor<4x4xf32>
  %y = autopar.binary mul %rs, %c : tensor<4x4xf32>
  return %y, %mean : tensor<4x4xf32>, tensor<4xf32>
}
func.func @shared_deviation(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) {
  %q = autopar.constant dense<0.25> : tensor<4xf32>
  %sq = autopar.binary mul %x, %x : tensor<4x4xf32>
  %vs = autopar.reduce sum %sq dims [1] : tensor<4x4xf32> -> tensor<4xf32>
  %var = autopar.binary mul %vs, %q : tensor<4xf32>
  %r = autopar.unary sqrt %var : tensor<4xf32>
  %rs = autopar.broadcast %r dims [0] : tensor<4xf32> -> tensor<4x4xf32>
  %y = autopar.binary div %x, %rs : tensor<4x4xf32>
  return %y, %r : tensor<4x4xf32>, tensor<4xf32>
}
func.func @unequal_count(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %q = autopar.constant dense<0.5> : tensor<4xf32>
  %sq = autopar.binary mul %x, %x : tensor<4x4xf32>
  %vs = autopar.reduce sum %sq dims [1] : tensor<4x4xf32> -> tensor<4xf32>
  %var = autopar.binary mul %vs, %q : tensor<4xf32>
  %r = autopar.unary sqrt %var : tensor<4xf32>
  %rs = autopar.broadcast %r dims [0] : tensor<4xf32> -> tensor<4x4xf32>
  %y = autopar.binary div %x, %rs : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
func.func @wrong_rows(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %q = autopar.constant dense<0.25> : tensor<4xf32>
  %sq = autopar.binary mul %x, %x : tensor<4x4xf32>
  %vs = autopar.reduce sum %sq dims [1] : tensor<4x4xf32> -> tensor<4xf32>
  %var = autopar.binary mul %vs, %q : tensor<4xf32>
  %r = autopar.unary sqrt %var : tensor<4xf32>
  %rs = autopar.broadcast %r dims [1] : tensor<4xf32> -> tensor<4x4xf32>
  %y = autopar.binary div %x, %rs : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// RMS normalization of llama: half precision outside, f32 inside.
// CHECK-LABEL: func.func @rms_norm
// CHECK-NEXT: %[[Y:.*]] = autopar.normalize %{{.*}} dims [1] epsilon {{.*}} rms {autopar.id = "norm/Mul"} : tensor<4x6xbf16>
// CHECK-NEXT: return %[[Y]]
func.func @rms_norm(%h: tensor<4x6xbf16>) -> tensor<4x6xbf16> {
  %n = autopar.constant dense<0.16666667> : tensor<f32>
  %one = autopar.constant dense<1.0> : tensor<f32>
  %eps = autopar.constant dense<1.0e-6> : tensor<4x1xf32>
  %x = autopar.cast %h : tensor<4x6xbf16> -> tensor<4x6xf32>
  %sq = autopar.binary mul %x, %x : tensor<4x6xf32>
  %s0 = autopar.reduce sum %sq dims [1] : tensor<4x6xf32> -> tensor<4xf32>
  %ns = autopar.broadcast %n dims [] : tensor<f32> -> tensor<4xf32>
  %m = autopar.binary mul %s0, %ns : tensor<4xf32>
  %s1 = autopar.reshape %m : tensor<4xf32> -> tensor<4x1xf32>
  %ve = autopar.binary add %eps, %s1 : tensor<4x1xf32>
  %dev = autopar.unary sqrt %ve : tensor<4x1xf32>
  %ones = autopar.broadcast %one dims [] : tensor<f32> -> tensor<4x1xf32>
  %inv = autopar.binary div %ones, %dev : tensor<4x1xf32>
  %invs = autopar.broadcast %inv dims [0, 1] : tensor<4x1xf32> -> tensor<4x6xf32>
  %y = autopar.binary mul %x, %invs {autopar.id = "norm/Mul"} : tensor<4x6xf32>
  %narrow = autopar.cast %y : tensor<4x6xf32> -> tensor<4x6xbf16>
  return %narrow : tensor<4x6xbf16>
}

// -----

// CHECK-LABEL: func.func @gelu_erf
// CHECK-NEXT: autopar.unary gelu %{{.*}} {autopar.id = "act"}
// CHECK-NEXT: return
// CHECK-LABEL: func.func @gelu_erf_other_order
// CHECK-NEXT: autopar.unary gelu %
// CHECK-NEXT: return
// CHECK-LABEL: func.func @not_gelu
// CHECK-NOT: gelu %
func.func @gelu_erf(%x: tensor<8xf32>) -> tensor<8xf32> {
  %r2 = autopar.constant dense<1.41421354> : tensor<8xf32>
  %one = autopar.constant dense<1.0> : tensor<8xf32>
  %half = autopar.constant dense<0.5> : tensor<8xf32>
  %0 = autopar.binary div %x, %r2 : tensor<8xf32>
  %1 = autopar.unary erf %0 : tensor<8xf32>
  %2 = autopar.binary add %1, %one : tensor<8xf32>
  %3 = autopar.binary mul %x, %2 : tensor<8xf32>
  %4 = autopar.binary mul %3, %half {autopar.id = "act"} : tensor<8xf32>
  return %4 : tensor<8xf32>
}
func.func @gelu_erf_other_order(%x: tensor<8xf32>) -> tensor<8xf32> {
  %r2 = autopar.constant dense<0.70710677> : tensor<8xf32>
  %half = autopar.constant dense<0.5> : tensor<8xf32>
  %0 = autopar.binary mul %r2, %x : tensor<8xf32>
  %1 = autopar.unary erf %0 : tensor<8xf32>
  %2 = autopar.binary mul %1, %half : tensor<8xf32>
  %3 = autopar.binary add %half, %2 : tensor<8xf32>
  %4 = autopar.binary mul %3, %x : tensor<8xf32>
  return %4 : tensor<8xf32>
}
func.func @not_gelu(%x: tensor<8xf32>) -> tensor<8xf32> {
  %r2 = autopar.constant dense<0.8> : tensor<8xf32>
  %one = autopar.constant dense<1.0> : tensor<8xf32>
  %half = autopar.constant dense<0.5> : tensor<8xf32>
  %0 = autopar.binary mul %r2, %x : tensor<8xf32>
  %1 = autopar.unary erf %0 : tensor<8xf32>
  %2 = autopar.binary add %one, %1 : tensor<8xf32>
  %3 = autopar.binary mul %2, %x : tensor<8xf32>
  %4 = autopar.binary mul %3, %half : tensor<8xf32>
  return %4 : tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @gelu_tanh
// CHECK-NEXT: autopar.unary gelu_tanh %{{.*}} {autopar.id = "act"}
// CHECK-NEXT: return
// CHECK-LABEL: func.func @gelu_tanh_products
// CHECK-NEXT: autopar.unary gelu_tanh
// CHECK-NEXT: return
func.func @gelu_tanh(%x: tensor<8xf32>) -> tensor<8xf32> {
  %three = autopar.constant dense<3.0> : tensor<8xf32>
  %a = autopar.constant dense<4.471500e-02> : tensor<8xf32>
  %k = autopar.constant dense<0.797884583> : tensor<8xf32>
  %one = autopar.constant dense<1.0> : tensor<8xf32>
  %half = autopar.constant dense<0.5> : tensor<8xf32>
  %0 = autopar.binary pow %x, %three : tensor<8xf32>
  %1 = autopar.binary mul %0, %a : tensor<8xf32>
  %2 = autopar.binary add %x, %1 : tensor<8xf32>
  %3 = autopar.binary mul %2, %k : tensor<8xf32>
  %4 = autopar.unary tanh %3 : tensor<8xf32>
  %5 = autopar.binary add %4, %one : tensor<8xf32>
  %6 = autopar.binary mul %x, %half : tensor<8xf32>
  %7 = autopar.binary mul %6, %5 {autopar.id = "act"} : tensor<8xf32>
  return %7 : tensor<8xf32>
}
func.func @gelu_tanh_products(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = autopar.constant dense<4.471500e-02> : tensor<8xf32>
  %k = autopar.constant dense<0.797884583> : tensor<8xf32>
  %one = autopar.constant dense<1.0> : tensor<8xf32>
  %half = autopar.constant dense<0.5> : tensor<8xf32>
  %0 = autopar.binary mul %x, %k : tensor<8xf32>
  %1 = autopar.binary mul %a, %x : tensor<8xf32>
  %2 = autopar.binary mul %1, %x : tensor<8xf32>
  %3 = autopar.binary add %2, %one : tensor<8xf32>
  %4 = autopar.binary mul %0, %3 : tensor<8xf32>
  %5 = autopar.unary tanh %4 : tensor<8xf32>
  %6 = autopar.binary add %one, %5 : tensor<8xf32>
  %7 = autopar.binary mul %half, %6 : tensor<8xf32>
  %8 = autopar.binary mul %x, %7 : tensor<8xf32>
  return %8 : tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @silu
// CHECK-NEXT: autopar.unary silu %{{.*}} {autopar.id = "act/Mul"} : tensor<8x256xf32>
// CHECK-NEXT: return
// CHECK-LABEL: func.func @sigmoid_used_twice
// CHECK: autopar.unary sigmoid
// CHECK: autopar.binary mul
// CHECK-LABEL: func.func @written_out_sigmoid
// CHECK-NEXT: autopar.unary silu
func.func @silu(%x: tensor<8x256xf32>) -> tensor<8x256xf32> {
  %s = autopar.unary sigmoid %x : tensor<8x256xf32>
  %y = autopar.binary mul %x, %s {autopar.id = "act/Mul"} : tensor<8x256xf32>
  return %y : tensor<8x256xf32>
}
func.func @sigmoid_used_twice(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %s = autopar.unary sigmoid %x : tensor<8xf32>
  %y = autopar.binary mul %x, %s : tensor<8xf32>
  return %y, %s : tensor<8xf32>, tensor<8xf32>
}
func.func @written_out_sigmoid(%x: tensor<8xf32>) -> tensor<8xf32> {
  %one = autopar.constant dense<1.0> : tensor<8xf32>
  %n = autopar.unary neg %x : tensor<8xf32>
  %e = autopar.unary exp %n : tensor<8xf32>
  %d = autopar.binary add %e, %one : tensor<8xf32>
  %s = autopar.binary div %one, %d : tensor<8xf32>
  %y = autopar.binary mul %s, %x : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @softmax
// CHECK-NEXT: autopar.softmax %{{.*}} dim 1 {autopar.id = "p"} : tensor<4x6xf32>
// CHECK-NEXT: return
// CHECK-LABEL: func.func @log_softmax
// CHECK-NEXT: autopar.softmax %{{.*}} dim 0 log : tensor<4x6xf32>
// CHECK-NEXT: return
func.func @softmax(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %m = autopar.reduce max %x dims [1] : tensor<4x6xf32> -> tensor<4xf32>
  %ms = autopar.broadcast %m dims [0] : tensor<4xf32> -> tensor<4x6xf32>
  %c = autopar.binary sub %x, %ms : tensor<4x6xf32>
  %e = autopar.unary exp %c : tensor<4x6xf32>
  %s = autopar.reduce sum %e dims [1] : tensor<4x6xf32> -> tensor<4xf32>
  %s1 = autopar.reshape %s : tensor<4xf32> -> tensor<4x1xf32>
  %ss = autopar.broadcast %s1 dims [0, 1] : tensor<4x1xf32> -> tensor<4x6xf32>
  %y = autopar.binary div %e, %ss {autopar.id = "p"} : tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
func.func @log_softmax(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %m = autopar.reduce max %x dims [0] : tensor<4x6xf32> -> tensor<6xf32>
  %ms = autopar.broadcast %m dims [1] : tensor<6xf32> -> tensor<4x6xf32>
  %c = autopar.binary sub %x, %ms : tensor<4x6xf32>
  %e = autopar.unary exp %c : tensor<4x6xf32>
  %s = autopar.reduce sum %e dims [0] : tensor<4x6xf32> -> tensor<6xf32>
  %l = autopar.unary log %s : tensor<6xf32>
  %ls = autopar.broadcast %l dims [1] : tensor<6xf32> -> tensor<4x6xf32>
  %y = autopar.binary sub %c, %ls : tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
