// RUN: autopar-opt %s --autopar-prepare-kernels --split-input-file --verify-diagnostics

func.func @heap() {
  // expected-error @+1 {{kernels must not allocate memory; use memref.alloca for small scratch or pass a buffer}}
  %m = memref.alloc() : memref<4xf32>
  return
}

// -----

func.func @large() {
  // expected-error @+1 {{scratch of 4000000 bytes is more than the 1048576 bytes a kernel may keep on the stack}}
  %m = memref.alloca() : memref<1000000xf32>
  return
}

// -----

func.func @dynamic(%n: index) {
  // expected-error @+1 {{expected scratch of static shape and identity layout, got 'memref<?xf32>'}}
  %m = memref.alloca(%n) : memref<?xf32>
  return
}
