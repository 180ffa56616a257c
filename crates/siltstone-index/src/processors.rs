//! Functions that are compiled several times, for processors with more instructions than the target of the compilation
//! has. The first call chooses the version; each further one loads its address.

/// Defines a function `name(parameters)` that evaluates `portable`, a block with a call of an inlined function, with a
/// list per version: the features that the version requires. The lists are in the order of preference.
macro_rules! per_processor {
    (
        $(#[doc = $doc:literal])+
        $visibility:vis fn $name:ident($($parameter:ident: $kind:ty),+) -> $result:ty $portable:block
        x86_64: $($features:tt),+;
    ) => {
        $(#[doc = $doc])+
        #[inline]
        $visibility fn $name($($parameter: $kind),+) -> $result {
            use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
            type Version = unsafe fn($($kind),+) -> $result;
            static CHOSEN: AtomicPtr<()> = AtomicPtr::new(choose as *mut ());

            fn version() -> Version {
                #[cfg(target_arch = "x86_64")]
                {
                    per_processor!(@versions ($($parameter: $kind),+) $result, $portable $($features),+);
                }
                fn version($($parameter: $kind),+) -> $result $portable
                version
            }

            #[cold]
            fn choose($($parameter: $kind),+) -> $result {
                let version = version();
                CHOSEN.store(version as *mut (), Relaxed);
                // SAFETY: the processor has all features of the version.
                unsafe { version($($parameter),+) }
            }

            // SAFETY: the pointer is that of `choose` or of a version that it has chosen, both with this signature.
            unsafe { std::mem::transmute::<*mut (), Version>(CHOSEN.load(Relaxed))($($parameter),+) }
        }
    };
    (@versions $parameters:tt $result:ty, $portable:block $($features:tt),+) => {
        $(per_processor!(@version $parameters $result, $portable $features);)+
    };
    (@version $parameters:tt $result:ty, $portable:block [$($feature:tt),+]) => {
        if $(std::arch::is_x86_feature_detected!($feature))&&+ {
            $(#[target_feature(enable = $feature)])+
            fn version $parameters -> $result $portable
            return version;
        }
    };
}
pub(crate) use per_processor;
