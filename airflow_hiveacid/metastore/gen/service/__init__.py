__all__ = ['ttypes', 'constants', 'Metastore', 'Places']
