package holdfast;

/** What Python answers: which slices a batch reads. Blocks until that is decided. */
public interface Planner {
    /** JSON, see SliceReaders; called once per batch, in the driver. */
    String plan(long number);
}
