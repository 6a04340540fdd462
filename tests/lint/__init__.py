"""What ./build.sh check knows about the sources: layers, stubs, native code, style. The tests beside tests/ run it."""
