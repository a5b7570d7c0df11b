typedef _Float16 __half;
